//! What a record means: pure functions of it, so that a corrected formula judges old records anew.

pub mod amplify;
mod compare;
pub mod durability;
pub mod effort;
pub mod explain;
pub mod gap;
pub mod interval;
pub mod lab;
pub mod quantile;
pub mod ratio;
pub mod spread;
pub mod stop;
pub mod trunc;

#[cfg(test)]
mod tests;
