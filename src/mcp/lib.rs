//! The protocol edge: one MCP server per butler. It translates and decides nothing.
//!
//! Sessions of the protocol are not used: whoever calls is known by the token of each request, in every version of the
//! protocol, so that a dropped connection or a restarted client loses nothing.

mod client;
mod connections;
mod handler;
mod http;
mod pipe;
mod quick;
mod result;
mod server;

pub use client::{ClientError, RemoteAnswer, RemoteConnection, RemoteServer, RemoteTool};
pub use connections::prove;
pub use http::{BODY_TIMEOUT, Body, TOO_SLOW, body_refusal, json_body, refusal_response, text_body, whole_body};
pub use pipe::SERVER_OUTPUT;
pub use result::tool_result;
pub use server::{BindError, Listener, Served, accept_loop};
