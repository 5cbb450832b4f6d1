pub mod json;
pub mod layer;
pub mod provider {
    pub mod sse;
}
