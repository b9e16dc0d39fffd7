"""What starts, stops, installs and checks the product, in parts."""
