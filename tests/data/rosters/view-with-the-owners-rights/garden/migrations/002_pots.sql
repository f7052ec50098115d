CREATE VIEW pots AS SELECT name FROM plants;
