"""Published studies that run on the product's code: readers of papers' formats and their experiments."""
