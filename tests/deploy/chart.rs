//! `helm/sluicegate`, rendered by the real Helm.
//!
//! The values files of `ci/` are the cases: each renders for every version of Kubernetes whose schemas are known, and
//! every claim below holds for all of them. What no schema knows (kinds of operators) is held field by field. No test
//! needs a cluster.

mod agreement;
mod configuration;
mod documents;
mod operators;
mod refusals;
mod render;
mod schemas;
mod security;
mod tools;
mod upgrade;
mod values;
mod yaml;
