//! What is kept: the embedded PostgreSQL cluster.

pub mod cluster;
