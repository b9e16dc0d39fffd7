"""Commands of the product as a whole."""
