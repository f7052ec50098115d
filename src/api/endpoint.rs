//! An endpoint: its path, its types, and what answers it.

use admin::{Failure, Need};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input::Input;
use super::problem::Problem;
use super::visit::Visit;

/// What answers a request: JSON, or why not.
pub(crate) type Run = Box<dyn for<'a> Fn(&'a Visit) -> BoxFuture<'a, Result<Bytes, Problem>> + Send + Sync>;

/// A part of the API, by which its document is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub name: &'static str,
    pub about: &'static str,
}

/// One row of the table.
pub(crate) struct Endpoint {
    pub method: Method,
    /// Below `/api/v1`, with `{name}` for each parameter that stands in it.
    pub path: &'static str,
    /// Its name for programs.
    pub id: &'static str,
    pub summary: &'static str,
    pub need: Need,
    /// The status of an answer.
    pub success: StatusCode,
    pub params: Input,
    pub body: Option<Input>,
    /// JSON Schema of the answer.
    pub answer: fn(&mut SchemaGenerator) -> Schema,
    pub run: Run,
}

/// An async function of parameters. The bound says of its future what the compiler can't learn of any function's: that
/// it borrows the visit and no more, and may move between threads.
pub(crate) trait Read<'a, P, A>: Fn(&'a Visit, P) -> Self::Running + Copy + Send + Sync + 'static {
    type Running: Future<Output = Result<A, Failure>> + Send + 'a;
}

impl<'a, P, A, F, R> Read<'a, P, A> for F
where
    F: Fn(&'a Visit, P) -> R + Copy + Send + Sync + 'static,
    R: Future<Output = Result<A, Failure>> + Send + 'a,
{
    type Running = R;
}

/// The same of parameters and a body.
pub(crate) trait Act<'a, P, B, A>: Fn(&'a Visit, P, B) -> Self::Running + Copy + Send + Sync + 'static {
    type Running: Future<Output = Result<A, Failure>> + Send + 'a;
}

impl<'a, P, B, A, F, R> Act<'a, P, B, A> for F
where
    F: Fn(&'a Visit, P, B) -> R + Copy + Send + Sync + 'static,
    R: Future<Output = Result<A, Failure>> + Send + 'a,
{
    type Running = R;
}

/// An endpoint that one looks at.
pub(crate) fn get<P, A, F>(path: &'static str, id: &'static str, summary: &'static str, run: F) -> Endpoint
where
    F: for<'a> Read<'a, P, A>,
    P: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
{
    let run = runs(move |visit| {
        Box::pin(async move {
            let params = Input::read(&visit.params)?;
            json(&run(visit, params).await?)
        })
    });
    Endpoint {
        method: Method::GET,
        path,
        id,
        summary,
        need: Need::Look,
        success: StatusCode::OK,
        params: Input::of::<P>(),
        body: None,
        answer: SchemaGenerator::subschema_for::<A>,
        run,
    }
}

/// An endpoint that does something.
pub(crate) fn post<P, B, A, F>(path: &'static str, id: &'static str, summary: &'static str, run: F) -> Endpoint
where
    F: for<'a> Act<'a, P, B, A>,
    P: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
{
    let run = runs(move |visit| {
        Box::pin(async move {
            let (params, body) = (Input::read(&visit.params)?, Input::read(&visit.body)?);
            json(&run(visit, params, body).await?)
        })
    });
    Endpoint {
        method: Method::POST,
        path,
        id,
        summary,
        need: Need::Manage,
        success: StatusCode::OK,
        params: Input::of::<P>(),
        body: Some(Input::of::<B>()),
        answer: SchemaGenerator::subschema_for::<A>,
        run,
    }
}

/// The compiler learns here how long what runs may borrow.
fn runs<F>(run: F) -> Run
where
    F: for<'a> Fn(&'a Visit) -> BoxFuture<'a, Result<Bytes, Problem>> + Send + Sync + 'static,
{
    Box::new(run)
}

fn json<A: Serialize>(answer: &A) -> Result<Bytes, Problem> {
    let bytes = serde_json::to_vec(answer).map_err(|e| Problem::from(Failure::internal("Writing the answer", &e)))?;
    Ok(Bytes::from(bytes))
}

impl Endpoint {
    /// The same, of another right than is usual.
    pub fn needs(self, need: Need) -> Self {
        Self { need, ..self }
    }

    /// The same, which is answered before it is done.
    pub fn begins(self) -> Self {
        Self { success: StatusCode::ACCEPTED, ..self }
    }

    pub fn looks(&self) -> bool {
        self.method == Method::GET
    }

    pub fn scope(&self) -> &'static str {
        match self.need {
            Need::Look => "read",
            Need::HandIn => "ingest",
            Need::Work => "tools",
            Need::Manage | Need::Household => "admin",
        }
    }

    /// The names of the parameters that stand in its path, in order.
    pub fn in_path(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Every status that it may have.
    pub fn statuses(&self) -> Vec<StatusCode> {
        let mut all = vec![self.success];
        let takes = self.params.properties().next().is_some();
        if self.looks() {
            all.push(StatusCode::NOT_MODIFIED);
        }
        all.extend([StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN]);
        if takes {
            all.push(StatusCode::NOT_FOUND);
        }
        all.push(StatusCode::METHOD_NOT_ALLOWED);
        if self.body.is_some() {
            all.extend([StatusCode::REQUEST_TIMEOUT, StatusCode::UNSUPPORTED_MEDIA_TYPE]);
        }
        all.extend([StatusCode::CONFLICT, StatusCode::PAYLOAD_TOO_LARGE]);
        if takes || self.body.is_some() {
            all.push(StatusCode::UNPROCESSABLE_ENTITY);
        }
        all.extend([StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE]);
        all
    }
}
