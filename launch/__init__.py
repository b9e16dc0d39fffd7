"""What starts, stops, installs and checks the product, with nothing but the standard library."""
