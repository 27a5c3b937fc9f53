//! What a record means: pure functions of it, so that a corrected formula judges old records anew.

pub mod amplify;
pub mod cliff;
mod compare;
pub mod drive;
pub mod durability;
pub mod explain;
mod figure;
pub mod foreign;
pub mod gap;
pub mod interval;
pub mod lab;
pub mod limits;
pub mod overhead;
pub mod quantile;
pub mod ratio;
pub mod spread;
pub mod steady;
pub mod stop;
pub mod timeline;
pub mod trunc;
pub mod verdict;

#[cfg(test)]
mod tests;
