-- What plants stand in.
CREATE TABLE pots (id uuid PRIMARY KEY);
