"""Steps per second of Gavel's job types on 1, 2, 4 and 8 V100s (OSDI'20, MIT licence).

From the artifact's ``simulation_throughputs.json``, workers on one machine, nothing beside them.
"""

from __future__ import annotations

SCALES = (1, 2, 4, 8)

STEPS_PER_SECOND: dict[str, tuple[float, ...]] = {
    "ResNet-18 (batch size 16)": (32.353, 100.142, 123.854, 382.597),
    "ResNet-18 (batch size 32)": (29.947, 94.249, 114.733, 340.038),
    "ResNet-18 (batch size 64)": (24.093, 74.136, 95.588, 255.829),
    "ResNet-18 (batch size 128)": (17.995, 23.985, 69.951, 162.092),
    "ResNet-18 (batch size 256)": (10.3, 15.883, 27.782, 81.507),
    "ResNet-50 (batch size 16)": (11.396, 13.86, 23.196, 27.799),
    "ResNet-50 (batch size 32)": (7.787, 10.835, 13.763, 24.067),
    "ResNet-50 (batch size 64)": (4.395, 7.922, 9.452, 17.303),
    "ResNet-50 (batch size 128)": (2.497, 4.223, 7.029, 10.293),
    "Transformer (batch size 16)": (11.064, 14.154, 20.085, 71.652),
    "Transformer (batch size 32)": (10.621, 13.328, 22.823, 63.978),
    "Transformer (batch size 64)": (8.618, 15.876, 19.66, 49.651),
    "Transformer (batch size 128)": (5.446, 10.069, 14.175, 30.884),
    "Transformer (batch size 256)": (1.595, 2.885, 4.763, 9.717),
    "A3C": (7.176,),
    "LM (batch size 5)": (109.167, 185.724, 126.716, 698.773),
    "LM (batch size 10)": (81.652, 163.129, 121.478, 615.093),
    "LM (batch size 20)": (64.742, 132.174, 110.997, 497.295),
    "LM (batch size 40)": (45.237, 91.593, 96.031, 359.307),
    "LM (batch size 80)": (28.24, 58.092, 74.807, 231.176),
    "Recommendation (batch size 512)": (23.318,),
    "Recommendation (batch size 1024)": (13.283,),
    "Recommendation (batch size 2048)": (7.47,),
    "Recommendation (batch size 4096)": (3.906,),
    "Recommendation (batch size 8192)": (2.842,),
    "CycleGAN": (4.426,),
}
