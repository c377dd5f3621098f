//! The topology as people read it at start-up and in `check`: one line per node and LLC, more only where the machine
//! has more to tell.

use super::Topology;
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, LlcId};
use std::collections::BTreeMap;
use std::fmt;

/// Longest CPU list that is printed as it is; the lists of interleaved machines name every CPU.
const LONG_LIST: usize = 40;
/// Cores of an LLC whose siblings are all spelled out.
const MANY_CORES: usize = 8;
/// Where lines of clusters are broken.
const LINE: usize = 110;

impl Topology {
    /// The counts in one line: `2 nodes, 4 LLCs, 8 cores, 8 CPUs, no SMT`.
    pub fn summary(&self) -> String {
        let mut parts = vec![count(self.nr_nodes(), "node"), count(self.nr_llcs(), "LLC")];
        if self.has_clusters() {
            parts.push(count(self.nr_clusters(), "cluster"));
        }
        parts.push(count(self.nr_cores(), "core"));
        parts.push(count(self.nr_cpus(), "CPU"));
        parts.push(if self.has_smt() { format!("SMT {}", self.smt_width()) } else { "no SMT".to_string() });
        if self.is_asymmetric() {
            parts.push("cores of different sizes".to_string());
        }
        parts.join(", ")
    }

    fn llc_details(&self, llc: LlcId) -> String {
        let cores = self.llc_cores(llc);
        let mut text = count(cores.len(), "core");
        let clusters = self.llc_clusters(llc);
        if clusters.len() > 1 {
            text += &format!(" in {} clusters", clusters.len());
        }
        if self.has_smt() {
            let pair = |core| self.core_cpus(core).iter().map(|c| c.to_string()).collect::<Vec<_>>().join("+");
            let mut pairs: Vec<String> = cores.iter().map(|c| pair(*c)).collect();
            if pairs.len() > MANY_CORES {
                let last = pairs.len() - 1;
                pairs.splice(2..last, ["..".to_string()]);
            }
            text += &format!(": {}", pairs.join(" "));
        }
        text
    }

    /// Lines below an LLC's: its clusters and its capacities, where there are several.
    fn llc_extras(&self, llc: LlcId) -> Vec<String> {
        let mut lines = Vec::new();
        let clusters = self.llc_clusters(llc);
        if clusters.len() > 1 {
            let mut line = "clusters".to_string();
            for cluster in clusters {
                let cpus = short(self.cluster_cpus(*cluster));
                if line.len() + cpus.len() >= LINE {
                    lines.push(std::mem::replace(&mut line, " ".repeat("clusters".len())));
                }
                line += &format!(" {cpus}");
            }
            lines.push(line);
        }
        if self.is_asymmetric() {
            let mut sizes: BTreeMap<u16, CpuMask> = BTreeMap::new();
            for cpu in self.llc_cpus(llc).iter().filter_map(|c| self.cpu(c)) {
                sizes.entry(cpu.capacity).or_default().set(cpu.id);
            }
            let sizes = sizes.iter().rev().map(|(size, cpus)| format!("{size}: CPUs {}", short(cpus)));
            lines.push(format!("capacity {}", sizes.collect::<Vec<_>>().join(", ")));
        }
        lines
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node_name = |n| format!("node {}", self.kernel_node(n).unwrap_or_default());
        let llc_name = |l: LlcId| format!("  LLC {l}");
        let names = self.nodes().map(node_name).chain(self.llcs().map(llc_name)).map(|s| s.len());
        let name_width = names.max().unwrap_or_default();
        let list_width = self.llcs().map(|l| short(self.llc_cpus(l)).len()).max().unwrap_or_default();

        writeln!(f, "{}", self.summary())?;
        for node in self.nodes() {
            writeln!(f, "{:name_width$}  CPUs {}", node_name(node), short(self.node_cpus(node)))?;
            for llc in self.node_llcs(node) {
                let cpus = short(self.llc_cpus(*llc));
                let details = self.llc_details(*llc);
                writeln!(f, "{:name_width$}  CPUs {cpus:list_width$}  {details}", llc_name(*llc))?;
                for line in self.llc_extras(*llc) {
                    writeln!(f, "{:name_width$}  {line}", "")?;
                }
            }
        }
        for assumption in &self.assumptions {
            writeln!(f, "assumed: {assumption}")?;
        }
        Ok(())
    }
}

fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// A CPU list; a long one as `first-last:step` if evenly spaced, else by its ends and its size.
fn short(cpus: &CpuMask) -> String {
    let list = cpus.to_string();
    if list.len() <= LONG_LIST {
        return list;
    }
    let all: Vec<CpuId> = cpus.iter().collect();
    let ([first, second, ..], Some(last)) = (all.as_slice(), all.last()) else { return list };
    let step = second.0 - first.0;
    if all.windows(2).all(|w| w[1].0 - w[0].0 == step) {
        format!("{first}-{last}:{step}")
    } else {
        let start: String = list.split(',').take(3).collect::<Vec<_>>().join(",");
        format!("{start} .. {last} ({} CPUs)", all.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Grid, Numbering, RawCpu};
    use super::*;

    #[test]
    fn a_small_machine_is_a_few_aligned_lines() {
        let t = Topology::grid(2, 2, 2, 1);
        let want = "\
2 nodes, 4 LLCs, 8 cores, 8 CPUs, no SMT
node 0   CPUs 0-3
  LLC 0  CPUs 0-1  2 cores
  LLC 1  CPUs 2-3  2 cores
node 1   CPUs 4-7
  LLC 2  CPUs 4-5  2 cores
  LLC 3  CPUs 6-7  2 cores
";
        assert_eq!(t.to_string(), want);
    }

    #[test]
    fn siblings_clusters_and_core_sizes_show_where_they_exist() {
        let mut raw = Grid::new(1, 1, 4, 2).clusters(2).numbering(Numbering::SiblingsLast).raw();
        for cpu in raw.iter_mut().filter(|c| c.core >= 2) {
            cpu.capacity = 600;
        }
        let t = Topology::new(&raw, vec!["Something.".to_string()]).expect("a topology");
        let want = "\
1 node, 1 LLC, 2 clusters, 4 cores, 8 CPUs, SMT 2, cores of different sizes
node 0   CPUs 0-7
  LLC 0  CPUs 0-7  4 cores in 2 clusters: 0+4 1+5 2+6 3+7
         clusters 0-1,4-5 2-3,6-7
         capacity 1024: CPUs 0-1,4-5, 600: CPUs 2-3,6-7
assumed: Something.
";
        assert_eq!(t.to_string(), want);
    }

    #[test]
    fn a_machine_of_384_cpus_stays_within_a_screen() {
        let t = Grid::new(2, 6, 16, 2).numbering(Numbering::SiblingsLast).build();
        let text = t.to_string();
        assert_eq!(text.lines().count(), 1 + 2 + 12);
        assert!(text.contains("16 cores: 0+192 1+193 .. 15+207\n"), "{text}");
        assert!(text.lines().all(|l| l.len() <= LINE), "{text}");
        let t = Grid::new(2, 6, 16, 2).numbering(Numbering::NodesInterleaved).build();
        assert!(t.to_string().contains("node 0    CPUs 0-382:2\n"), "{t}");
    }

    #[test]
    fn a_long_uneven_list_is_cut() {
        let t = Grid::new(1, 1, 40, 1).raw();
        let odd: Vec<RawCpu> = t.into_iter().map(|c| RawCpu { id: c.id * c.id / 2, ..c }).collect();
        let t = Topology::new(&odd, vec![]).expect("a topology");
        assert!(t.to_string().contains("CPUs 0,2,4 .. 760 (39 CPUs)"), "{t}");
    }
}
