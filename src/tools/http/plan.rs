//! What an HTTP tool asks, and how.

use std::time::Duration;

use http::{HeaderName, Method};
use serde_json::Value;

use super::answer::Shape;
use super::guard::Guard;

/// What is to be asked, and how.
#[derive(Debug)]
pub(super) struct Plan {
    pub method: Method,
    /// With places.
    pub url: String,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Option<Value>,
    /// The body goes as a form's fields.
    pub is_form: bool,
    pub returns: Shape,
    pub secrets: Vec<String>,
    pub defaults: Vec<(String, Value)>,
    pub timeout: Duration,
    /// So long an answer may be given again.
    pub cache: Option<Duration>,
    pub guard: Guard,
    /// Of the address as it stands in the file.
    pub host: String,
}
