//! Where butlers are.

use crate::error::StoreError;
use crate::pool::{Lease, Tx};
use crate::replay::Place;

const PLACES: &str = "SELECT butler, schema FROM shared.butler_roles WHERE butler = ANY($1) ORDER BY butler";

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("looking up butlers' schemas")
}

/// Where these butlers are; those that never were here are left out.
pub async fn places_of(lease: &mut Lease, butlers: &[&str]) -> Result<Vec<Place>, StoreError> {
    Ok(lease.read(PLACES, &[&butlers]).await.map_err(failed())?.iter().map(Place::from).collect())
}

/// As [`places_of`], in a transaction.
pub async fn places_in(tx: &mut Tx<'_>, butlers: &[&str]) -> Result<Vec<Place>, StoreError> {
    Ok(tx.query(PLACES, &[&butlers]).await.map_err(failed())?.iter().map(Place::from).collect())
}

/// The butlers whose schema has this table.
pub async fn places_with(lease: &mut Lease, table: &str) -> Result<Vec<Place>, StoreError> {
    let sql = "SELECT butler, schema FROM shared.butler_roles
               WHERE to_regclass(format('%I.%I', schema, $1::text)) IS NOT NULL ORDER BY butler";
    Ok(lease.read(sql, &[&table]).await.map_err(failed())?.iter().map(Place::from).collect())
}
