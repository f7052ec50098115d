//! OAuth 2.0 for installed programs: how a household gets, renews and gives back the access to somebody's account. It knows
//! nothing of the house, keeps nothing and logs nothing.
//!
//! Sources: RFC 6749 (OAuth 2.0), 7636 (PKCE), 8252 (programs on a person's machine), 8628 (devices), 7009 (revocation),
//! 8414 and OpenID Connect Discovery, 9207 (the issuer in an answer), OpenID Connect Core 3.1.3.7 (ID tokens).
//!
//! A person gives access in one of two ways. Both end with [`Tokens`]:
//!
//! ```no_run
//! # async fn example(provider: oauth::Provider) -> Result<(), oauth::OauthError> {
//! // A browser comes back to this machine, or the person pastes the address at which it ended.
//! let login = oauth::Login::begin(&provider).await?;
//! println!("open {}", login.url());
//! let code = login.wait(std::time::Duration::from_secs(600)).await?;
//! let tokens = provider.exchange(code).await?;
//! // Or the person types a short code at some other device.
//! let mut device = oauth::Device::begin(&provider).await?;
//! println!("open {} and type {}", device.verification_uri(), device.user_code());
//! let tokens = device.wait(std::time::Duration::from_secs(600)).await?;
//! # Ok(())
//! # }
//! ```

mod device;
mod discovery;
mod error;
mod grant;
mod http;
mod login;
mod page;
mod provider;
#[cfg(test)]
mod testing;
mod tokens;

pub use device::{Device, Poll};
pub use error::OauthError;
pub use login::{Code, Login};
pub use provider::{Client, Provider};
pub use tokens::Tokens;
