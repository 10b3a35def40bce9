//! Runs a package on a file of inputs:   run_package MODEL.coil IN.safetensors OUT.safetensors
//!
//! Build against an installed or built Coil, with nothing else:
//!   rustc -O examples/rust/run_package.rs -L build/lib -C link-arg=-Wl,-rpath,build/lib -o run_package
use std::ffi::{c_char, c_int, c_void, CStr, CString};

const MAX_RANK: usize = 16;

/// `coil_tensor` of coil/runtime.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    dtype: c_int,
    rank: i16,
    on_device: i16,
    sizes: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    owner: *mut c_void,
}

impl Tensor {
    const EMPTY: Tensor = Tensor {
        data: std::ptr::null_mut(),
        dtype: 0,
        rank: 0,
        on_device: 0,
        sizes: [0; MAX_RANK],
        strides: [0; MAX_RANK],
        owner: std::ptr::null_mut(),
    };
}

/// `coil_port`.
#[repr(C)]
struct Port {
    name: *const c_char,
    dtype: c_int,
    rank: i32,
    mutated: i32,
    unused: i32,
}

#[link(name = "coil_runtime")]
extern "C" {
    fn coil_last_error() -> *const c_char;
    fn coil_tensor_release(tensor: *mut Tensor);
    fn coil_file_open(path: *const c_char) -> *mut c_void;
    fn coil_file_close(file: *mut c_void);
    fn coil_file_find(file: *const c_void, name: *const c_char, out: *mut Tensor) -> c_int;
    fn coil_file_write(path: *const c_char, names: *const *const c_char, tensors: *const Tensor, count: usize) -> c_int;
    fn coil_model_load(path: *const c_char) -> *mut c_void;
    fn coil_model_free(model: *mut c_void);
    fn coil_model_inputs(model: *const c_void, count: *mut usize) -> *const Port;
    fn coil_model_outputs(model: *const c_void, count: *mut usize) -> *const Port;
    fn coil_context_create(model: *const c_void) -> *mut c_void;
    fn coil_context_free(context: *mut c_void);
    fn coil_context_run(
        context: *mut c_void,
        inputs: *const Tensor,
        input_count: usize,
        outputs: *mut Tensor,
        output_count: usize,
    ) -> c_int;
}

fn last_error() -> String {
    unsafe { CStr::from_ptr(coil_last_error()).to_string_lossy().into_owned() }
}

fn check(error: c_int) -> Result<(), String> {
    if error == 0 { Ok(()) } else { Err(last_error()) }
}

/// What a function gave that returns null on failure, with what lets go of it.
struct Held(*mut c_void, unsafe extern "C" fn(*mut c_void));

impl Held {
    fn new(given: *mut c_void, free: unsafe extern "C" fn(*mut c_void)) -> Result<Held, String> {
        if given.is_null() { Err(last_error()) } else { Ok(Held(given, free)) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        unsafe { (self.1)(self.0) }
    }
}

fn run(model: &CStr, given: &CStr, results: &CStr) -> Result<(), String> {
    unsafe {
        let model = Held::new(coil_model_load(model.as_ptr()), coil_model_free)?;
        let file = Held::new(coil_file_open(given.as_ptr()), coil_file_close)?;
        let context = Held::new(coil_context_create(model.0), coil_context_free)?;
        let (mut count, mut out_count) = (0, 0);
        let ports = coil_model_inputs(model.0, &mut count);
        let out_ports = coil_model_outputs(model.0, &mut out_count);

        // Inputs are taken by name and lent to the run; they stay the file's.
        let mut inputs = vec![Tensor::EMPTY; count];
        for (i, input) in inputs.iter_mut().enumerate() {
            check(coil_file_find(file.0, (*ports.add(i)).name, input))?;
        }
        let mut outputs = vec![Tensor::EMPTY; out_count];
        check(coil_context_run(context.0, inputs.as_ptr(), count, outputs.as_mut_ptr(), out_count))?;
        let names: Vec<_> = (0..out_count).map(|i| (*out_ports.add(i)).name).collect();
        let written = check(coil_file_write(results.as_ptr(), names.as_ptr(), outputs.as_ptr(), out_count));
        for output in &mut outputs {
            coil_tensor_release(output);
        }
        written
    }
}

fn main() {
    let paths: Vec<CString> = std::env::args()
        .skip(1)
        .map(|a| CString::new(a).expect("arguments hold no zero bytes"))
        .collect();
    if paths.len() != 3 {
        eprintln!("usage: run_package MODEL.coil IN.safetensors OUT.safetensors");
        std::process::exit(2);
    }
    if let Err(message) = run(&paths[0], &paths[1], &paths[2]) {
        eprintln!("error: {message}");
        std::process::exit(1);
    }
}
