//! What the vendors' model APIs look like from outside, once for everybody who speaks them: the agent, which calls
//! them; the gateway, which stands in between; and the scripted model, which plays them.
//!
//! Everything here is pure: paths and documents are read and made, nobody is called.

mod anthropic;
mod api;
mod failure;
mod gemini;
mod openai;
mod reading;
pub mod request;
mod usage;
mod vendors;

#[cfg(test)]
mod tests;

pub use api::{Api, Endpoint, Family, Purpose};
pub use failure::{ErrorClass, Failure, TAKES_NO_PICTURES, pictures_not_shown};
pub use reading::Reading;
pub use request::VendorTool;
pub use usage::Usage;
