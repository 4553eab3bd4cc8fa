"""Fragmentation of GPUs: the placement study of USENIX ATC'23 on Alibaba's openb cluster."""
