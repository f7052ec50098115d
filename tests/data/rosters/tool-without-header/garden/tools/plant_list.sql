SELECT name FROM plants
