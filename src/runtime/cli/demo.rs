//! demo
#[derive(clap::Args)]
pub struct Args {}
pub fn run(_g: &super::Global, _a: &Args) -> Result<super::Exit, super::Failure> {
    Ok(super::Exit::Fine)
}
