use std::{collections::BTreeMap, sync::Arc, path::Path};
use phasegate_engine::{definition::Bundle, diagnostic::Source, resolve::*, case::*};
fn load(dir:&Path, base:&Path, files:&mut BTreeMap<String,Arc<Source>>){ for e in std::fs::read_dir(dir).unwrap(){ let p=e.unwrap().path(); if p.is_dir(){load(&p,base,files)} else { let n=p.strip_prefix(base).unwrap().to_str().unwrap().to_string(); files.insert(n.clone(), Source::new(&n, std::fs::read_to_string(&p).unwrap())); } } }
#[test] fn t(){ let base=Path::new("../../workflows/triage"); let mut files=BTreeMap::new(); load(base,base,&mut files); let definition=files.remove("workflow.toml").unwrap();
 let b=Bundle{definition,files}; let w=match resolve(&b,&Overrides::default(), Expressions::Checked){Ok(w)=>w,Err(d)=>{println!("{}",d.render(false));panic!()}};
 let r=run_cases(&w,&b); let mut bad=0; for c in &r { if !c.differences.is_empty(){bad+=1; println!("FAIL {}: {}\n   {}",c.file,c.name,c.differences.join("\n   "));} }
 println!("{} cases, {bad} bad; uncovered {:?}", r.len(), uncovered(&w,&r)); assert_eq!(bad,0);
}
