//! The integration tests: real PostgreSQL, real ports, real children, the real binary. One file for each behaviour.

mod left_out;
mod support;

mod clients;
mod doors;
mod first_light;
mod isolation;
mod tidy;
mod unit_file;
