#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| sluicegate_fuzz::json::run(data));
