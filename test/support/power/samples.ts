export interface Milliwatts {
  readonly cpu?: number | string
  readonly gpu?: number | string
  readonly ane?: number | string
  readonly combined?: number | string
  /** In the section of the GPU, which names it once more. */
  readonly gpuAgain?: number | string
  /** By the sensor of the whole machine, which only macmon prints. */
  readonly system?: number | string
}

/** As the first sample that was recorded on a Mac17,6. */
export const recorded: Milliwatts = { cpu: 164, gpu: 7, ane: 0, combined: 171, gpuAgain: 6 }

/** What powermetrics prints before its first sample. */
export const preamble = `Machine model: Mac17,6
OS version: 25E253
Boot arguments:
Boot time: Mon Nov 16 08:01:12 2026

`

/** One sample of `--samplers cpu_power,gpu_power`, in the order and the words of macOS; what is absent is not printed. */
export function printedSample({ cpu, gpu, ane, combined, gpuAgain }: Milliwatts): string {
  const line = (label: string, value: number | string | undefined): string =>
    value === undefined ? '' : `${label}: ${value} mW\n`
  return `*** Sampled system activity (Sun Nov 22 09:00:00 2026 +0100) (1018.33ms elapsed) ***


**** Processor usage ****

E-Cluster HW active frequency: 1045 MHz
E-Cluster HW active residency:  12.28% (1020 MHz:  11% 1404 MHz: .48% 1788 MHz: .13%)
CPU 0 frequency: 1064 MHz
CPU 0 active residency:   7.93% (1020 MHz: 7.3% 1404 MHz: .36%)

${line('CPU Power', cpu)}${line('GPU Power', gpu)}${line('ANE Power', ane)}${line('Combined Power (CPU + GPU + ANE)', combined)}
**** GPU usage ****

GPU HW active frequency: 338 MHz
GPU HW active residency:   1.72% (338 MHz: 1.7% 618 MHz:   0%)
GPU idle residency:  98.28%
${line('GPU Power', gpuAgain)}
`
}

/** A line of `macmon pipe` 0.7.2, of an M-series Mac that decodes; the watts are those of the sample, in the text of 32-bit floats. */
export function macmonLine({ cpu, gpu, ane, combined, system = 5_876 }: Milliwatts): string {
  const field = (name: string, value: number | string | undefined): string =>
    value === undefined ? '' : `"${name}":${typeof value === 'number' ? value / 1_000 : value},`
  return `{${field('all_power', combined)}${field('ane_power', ane)}${field('cpu_power', cpu)}"cpu_usage_pct":0.0368,"ecpu_usage":[1181,0.082656614],${field('gpu_power', gpu)}"gpu_ram_power":0.0009615385,"gpu_usage":[461,0.021497859],"memory":{"ram_total":25769803776,"ram_usage":20985479168,"swap_total":4294967296,"swap_usage":2602434560},"pcpu_usage":[1974,0.015181795],"ram_power":0.11635789,${field('sys_power', system)}"temp":{"cpu_temp_avg":43.73614,"gpu_temp_avg":36.95167},"timestamp":"2026-11-22T08:00:00.427569+00:00"}\n`
}
