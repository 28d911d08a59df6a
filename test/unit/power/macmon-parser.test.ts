import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { PowerFigures } from '../../../src/contract/power.ts'
import { macmonReader } from '../../../src/agent-core/power/macmon.ts'
import { plausibleWatts } from '../../../src/agent-core/power/power-source.ts'
import { macmonLine, recorded, type Milliwatts } from '../../support/power/samples.ts'

const parsed = (...pieces: string[]) => {
  const read = macmonReader()
  return pieces.flatMap((piece) => read(piece))
}

/** In the shape that each version prints. */
const versions = {
  '0.4.0, before it printed the power of RAM':
    '{"all_power":0.22231553,"ane_power":0.0,"cpu_power":0.20486385,"ecpu_usage":[1181,0.082656614],"gpu_power":0.017451683,"gpu_usage":[461,0.021497859],"memory":{"ram_total":25769803776,"ram_usage":20985479168,"swap_total":4294967296,"swap_usage":2602434560},"pcpu_usage":[1974,0.015181795],"sys_power":5.876533,"temp":{"cpu_temp_avg":43.73614,"gpu_temp_avg":36.95167}}',
  '0.6.1, with a timestamp and the SoC':
    '{"all_power":0.22231553,"ane_power":0.0,"cpu_power":0.20486385,"ecpu_usage":[1181,0.082656614],"gpu_power":0.017451683,"gpu_ram_power":0.0009615385,"gpu_usage":[461,0.021497859],"memory":{"ram_total":25769803776,"ram_usage":20985479168,"swap_total":4294967296,"swap_usage":2602434560},"pcpu_usage":[1974,0.015181795],"ram_power":0.11635789,"soc":{"mac_model":"Mac15,7","chip_name":"Apple M3 Pro","memory_gb":18},"sys_power":5.876533,"temp":{"cpu_temp_avg":43.73614,"gpu_temp_avg":36.95167},"timestamp":"2025-06-02T20:38:15.427569+00:00"}',
  '0.8.2, with ratios, cores and fans':
    '{"ane_power":0.0,"all_power":0.22231553,"cpu_active_ratio":0.092,"cpu_power":0.20486385,"cpu_scaled_ratio":0.036854,"cpu_usage_pct":0.036854,"ecpu_cores":[{"active_ratio":0.24,"core_id":0,"die_id":0,"freq_mhz":1600,"scaled_ratio":0.14}],"ecpu_freq_mhz":1100,"ecpu_usage":[1100,0.082656614],"fans":[{"max_rpm":4900,"name":"fan0","rpm":999}],"gpu_active_ratio":0.09,"gpu_freq_mhz":461,"gpu_power":0.017451683,"gpu_ram_power":0.0009615385,"gpu_usage":[461,0.021497859],"memory":{"ram_total":25769803776,"ram_usage":20985479168,"swap_total":4294967296,"swap_usage":2602434560},"ram_power":0.11635789,"sys_power":5.876533,"temp":{"cpu_temp_avg":43.73614,"gpu_temp_avg":36.95167},"timestamp":"2026-08-04T20:38:15.427569+00:00"}',
}

test.each(Object.entries(versions))('a line of macmon %s is read in milliwatts', (_, line) => {
  expect(parsed(`${line}\n`)).toEqual([{ combined: 222, cpu: 205, gpu: 17, ane: 0, system: 5_877 }])
})

test('a line counts when its end is there, however the output is cut into pieces', () => {
  const text = [1, 2, 3].map((n) => macmonLine({ cpu: n, gpu: n, ane: n, combined: 3 * n })).join('')
  expect(parsed(text.slice(0, -1))).toHaveLength(2)
  const whole = parsed(text)
  expect(whole).toHaveLength(3)
  const cuts = fc.array(fc.nat({ max: text.length }), { maxLength: 30 })
  fc.assert(
    fc.property(cuts, (at) => {
      const ends = [0, ...at.toSorted((a, b) => a - b), text.length]
      expect(parsed(...ends.slice(1).map((end, index) => text.slice(ends[index], end)))).toEqual(whole)
    }),
  )
})

describe('of a sample, what cannot be true is not reported', () => {
  test.each<[what: string, sample: Milliwatts, reported: PowerFigures]>([
    ['an idle Mac', recorded, { combinedWatts: 0.171, cpuWatts: 0.164, gpuWatts: 0.007, aneWatts: 0 }],
    [
      'a GPU that is not a number',
      { ...recorded, gpu: 'null' },
      { combinedWatts: 0.171, cpuWatts: 0.164, aneWatts: 0 },
    ],
    [
      'a CPU at 0 W, and a sum without it',
      { cpu: 0, gpu: 8_000, ane: 0, combined: 8_000, system: 20_000 },
      { gpuWatts: 8, aneWatts: 0 },
    ],
    [
      'a GPU above the system',
      { cpu: 900, gpu: 80_000, ane: 0, combined: 80_900, system: 30_000 },
      { cpuWatts: 0.9, aneWatts: 0 },
    ],
    [
      'a system at 0 W, whose sensor cannot be read',
      { cpu: 900, gpu: 80_000, combined: 80_900, system: 0 },
      { combinedWatts: 80.9, cpuWatts: 0.9, gpuWatts: 80 },
    ],
    [
      'more than a socket gives',
      { cpu: 900, gpu: 5, combined: '1e300', system: 'null' },
      { cpuWatts: 0.9, gpuWatts: 0.005 },
    ],
  ])('%s', (_, sample, reported) => {
    expect(parsed(macmonLine(sample)).map(plausibleWatts)).toEqual([reported])
  })
})
