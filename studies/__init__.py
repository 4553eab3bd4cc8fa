"""Published studies on the product's code: readers of the formats of papers, and their experiments."""
