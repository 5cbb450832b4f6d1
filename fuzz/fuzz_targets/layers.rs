#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| sluicegate_fuzz::layers::run(data));
