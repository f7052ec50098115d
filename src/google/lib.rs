//! Google's services as collections that a sync can follow. It knows nothing of the house, keeps nothing and logs nothing.
//!
//! Sources: Google's discovery documents of the services, which say what a request may hold (tests check each request against
//! them), and their pages about versions, sync tokens and errors.
//!
//! [`Client`] makes one request with a token that somebody else keeps ([`AccessToken`]); [`calendar`] is Google Calendar,
//! [`people`] the contacts of an account.

pub mod calendar;
mod client;
mod error;
pub mod people;

#[cfg(test)]
mod tests;

pub use client::{AccessToken, Client, Query, TokenError};
pub use error::GoogleError;
pub use reqwest::Method;
