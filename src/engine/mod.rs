pub mod json;
pub mod layer;
