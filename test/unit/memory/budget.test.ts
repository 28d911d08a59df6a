import { describe, expect, test } from 'vitest'
import { type BudgetInputs, parseRecommendedWorkingSet, resolveBudget } from '../../../src/agent-core/memory/budget.ts'

const gib = 2 ** 30

function resolved(inputs: Partial<BudgetInputs> & { totalBytes: number }) {
  const result = resolveBudget({ platform: 'darwin', ...inputs })
  if (!result.ok) throw new Error(result.message)
  return result.budget
}

function refusal(inputs: Partial<BudgetInputs>): string {
  const result = resolveBudget({ platform: 'darwin', totalBytes: 48 * gib, ...inputs })
  return result.ok ? 'accepted' : result.message
}

describe('the budget of a machine', () => {
  test.each([
    [16, 10.7],
    [24, 16.1],
    [32, 21.4],
    [36, 24.1],
    [48, 36],
    [64, 48],
    [96, 72],
    [128, 115.2],
    [192, 172.8],
    [512, 460.8],
  ])('of %d GiB is %d GiB', (total, budget) => {
    expect(Number((resolved({ totalBytes: total * gib }).bytes / gib).toFixed(1))).toBe(budget)
  })

  test('takes the larger share from the first byte above 36 GiB, and the largest from 128 GiB', () => {
    expect(resolved({ totalBytes: 36 * gib }).bytes).toBe(Math.floor(36 * gib * 0.67))
    expect(resolved({ totalBytes: 36 * gib + 1 }).bytes).toBe(Math.floor((36 * gib + 1) * 0.75))
    expect(resolved({ totalBytes: 128 * gib - 1 }).bytes).toBe(Math.floor((128 * gib - 1) * 0.75))
    expect(resolved({ totalBytes: 128 * gib }).bytes).toBe(Math.floor(128 * gib * 0.9))
  })

  test('says where it comes from, in both units', () => {
    expect(resolved({ totalBytes: 48 * gib }).how).toBe('38.7 GB (36 GiB): 75 % of 48 GiB, the default for this size')
  })
})

describe('overrides', () => {
  const all = {
    totalBytes: 64 * gib,
    modelBudget: '24Gi',
    modelFraction: 0.5,
    settingBytes: 20 * gib,
    settingFraction: 0.25,
  }

  test('the Model counts before the setting, bytes before a fraction', () => {
    const { modelBudget: _budget, ...withoutBudget } = all
    const { modelFraction: _fraction, ...settings } = withoutBudget
    const { settingBytes: _bytes, ...settingFraction } = settings
    const bytes = [all, withoutBudget, settings, settingFraction].map((given) => resolved(given).bytes / gib)
    expect(bytes).toEqual([24, 32, 20, 16])
  })

  test('a setting of 0 means automatic, as the flag says', () => {
    expect(resolved({ totalBytes: 48 * gib, settingFraction: 0 }).bytes).toBe(36 * gib)
  })

  test('a budget beyond all memory is cut to it', () => {
    expect(resolved({ totalBytes: 16 * gib, modelBudget: '1Ti' })).toMatchObject({
      bytes: 16 * gib,
      how: '17.2 GB (16 GiB): memoryBudget 1Ti of the Model, capped at all the memory of this machine',
    })
  })

  test.each<[string, Partial<BudgetInputs>, string]>([
    [
      'words',
      { modelBudget: 'much' },
      'spec.hardware.memoryBudget "much" is not a quantity of memory: write a quantity such as 24Gi or 24G in the Model',
    ],
    [
      'nothing',
      { modelBudget: '' },
      'spec.hardware.memoryBudget "" is not a quantity of memory: write a quantity such as 24Gi or 24G in the Model',
    ],
    [
      'zero',
      { modelBudget: '0' },
      'spec.hardware.memoryBudget 0 is 0 bytes, less than 1 MiB: write a quantity such as 24Gi or 24G in the Model',
    ],
    [
      'less than nothing',
      { modelBudget: '-24Gi' },
      'spec.hardware.memoryBudget -24Gi is -25769803776 bytes, less than 1 MiB: write a quantity such as 24Gi or 24G in the Model',
    ],
    [
      'thousandths',
      { modelBudget: '500m' },
      'spec.hardware.memoryBudget 500m is 1 byte, less than 1 MiB: write a quantity such as 24Gi or 24G (m means thousandths, M millions) in the Model',
    ],
    [
      'a fraction above 1',
      { modelFraction: 1.01 },
      'spec.hardware.memoryFraction must be more than 0 and at most 1, not 1.01: correct it in the Model',
    ],
    [
      'a fraction of 0',
      { modelFraction: 0 },
      'spec.hardware.memoryFraction must be more than 0 and at most 1, not 0: correct it in the Model',
    ],
    [
      'no number',
      { modelFraction: Number.NaN },
      'spec.hardware.memoryFraction must be more than 0 and at most 1, not NaN: correct it in the Model',
    ],
    [
      'a setting above 1',
      { settingFraction: 75 },
      'The memory fraction must be more than 0 and at most 1, not 75: correct it in the settings (0 = automatic)',
    ],
    [
      'a negative setting',
      { settingFraction: -0.5 },
      'The memory fraction must be more than 0 and at most 1, not -0.5: correct it in the settings (0 = automatic)',
    ],
    [
      'a setting of no bytes',
      { settingBytes: 0 },
      'The memory budget must be at least 1 MiB, not 0 bytes: change it in the settings',
    ],
    [
      'a machine that does not tell',
      { totalBytes: 0 },
      'No budget for models: this machine does not report how much memory it has',
    ],
  ])('%s is refused with one sentence', (_name, inputs, sentence) => {
    expect(refusal(inputs)).toBe(sentence)
  })

  test('a fraction of exactly 1 is all of it', () => {
    expect(resolved({ totalBytes: 48 * gib, modelFraction: 1 }).bytes).toBe(48 * gib)
  })
})

describe("the GPU's limit", () => {
  test('caps the budget, shows both numbers and the command that raises it', () => {
    expect(resolved({ totalBytes: 128 * gib, gpuLimitBytes: 96 * gib })).toEqual({
      bytes: 96 * gib,
      how: '103 GB (96 GiB), as much as the GPU may hold, instead of 124 GB (115.2 GiB): 90 % of 128 GiB, the default for this size; sudo sysctl iogpu.wired_limit_mb=117965 raises that until the Mac is restarted',
      gpuLimitBytes: 96 * gib,
      raiseCommand: 'sudo sysctl iogpu.wired_limit_mb=117965',
    })
  })

  test('caps what a Model asks for too', () => {
    const budget = resolved({ totalBytes: 64 * gib, modelBudget: '56Gi', gpuLimitBytes: 48 * gib })
    expect(budget).toMatchObject({ bytes: 48 * gib, gpuLimitBytes: 48 * gib })
    expect(budget.raiseCommand).toBe('sudo sysctl iogpu.wired_limit_mb=57344')
  })

  test('changes nothing where it is the larger one, and is shown', () => {
    const budget = resolved({ totalBytes: 48 * gib, gpuLimitBytes: 36 * gib })
    expect(budget).toMatchObject({ bytes: 36 * gib, gpuLimitBytes: 36 * gib })
    expect(budget.how).toContain('the GPU may hold 38.7 GB (36 GiB)')
    expect(budget.raiseCommand).toBeUndefined()
  })

  test('is never advised beyond what the system itself needs', () => {
    const budget = resolved({ totalBytes: 64 * gib, modelFraction: 1, gpuLimitBytes: 48 * gib })
    expect(budget.raiseCommand).toBe(`sudo sysctl iogpu.wired_limit_mb=${Math.ceil(64 * 1024 * 0.9)}`)
    expect(resolved({ totalBytes: 8 * gib, gpuLimitBytes: 5 * gib }).raiseCommand).toBeUndefined()
  })

  test('has no such command on Linux', () => {
    const budget = resolved({ totalBytes: 128 * gib, gpuLimitBytes: 96 * gib, platform: 'linux' })
    expect(budget.bytes).toBe(96 * gib)
    expect(budget.how).not.toContain('sysctl')
  })
})

describe("llama-server's words on Metal's working set", () => {
  const log = [
    'ggml_metal_device_init: has tensor            = false',
    'ggml_metal_device_init: recommendedMaxWorkingSetSize  = 103079.22 MB',
  ].join('\n')
  const list = [
    'Available devices:',
    '  Metal: Apple M4 Max (98304 MiB, 98303 MiB free)',
    '  BLAS: Accelerate (0 MiB, 0 MiB free)',
  ].join('\n')

  test.each([
    ['the log of a start', log, 103_079_220_000],
    [
      'the log of an older one',
      '0.00.030.199 I ggml_metal_init: recommendedMaxWorkingSetSize  = 11453.25 MB',
      11_453_250_000,
    ],
    ['the list of devices', list, 98_304 * 2 ** 20],
    ['the list of a newer one', '  MTL0: Apple M2 Ultra (165150 MiB, 158091 MiB free)\r\n', 165_150 * 2 ** 20],
    [
      'a device with brackets in its name',
      '  MTL0: Apple M4 (10 GPU cores) (25559 MiB, 25558 MiB free)',
      25_559 * 2 ** 20,
    ],
    ['both together: the smaller', `${log}\n${list}`, 98_304 * 2 ** 20],
  ])('%s', (_name, text, bytes) => {
    expect(parseRecommendedWorkingSet(text)).toBe(bytes)
  })

  test.each([
    ['nothing', ''],
    ['no device', 'Available devices:\n  (none)\n'],
    [
      'another kind of GPU',
      '  CUDA0: NVIDIA A100 (81037 MiB, 80000 MiB free)\n  Vulkan0: AMD (8192 MiB, 8000 MiB free)',
    ],
    ['a device without memory', '  Metal: Apple M4 (0 MiB, 0 MiB free)'],
    ['a line cut in the middle', 'ggml_metal_device_init: recommendedMaxWorkingSetSize  = 1030'],
  ])('%s tells no limit', (_name, text) => {
    expect(parseRecommendedWorkingSet(text)).toBeUndefined()
  })
})
