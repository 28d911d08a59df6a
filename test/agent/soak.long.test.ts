import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { schedule } from '../soak/schedule.ts'
import { soak } from '../soak/soak.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const seed = 202
const count = 40

test(
  `${count} faults at once and after one another break no promise, and at rest everything wanted serves (seed ${seed})`,
  { timeout: 600_000 },
  async ({ skip, annotate }) => {
    const controlPlane = inject('controlPlane')
    if ('missing' in controlPlane) return skip(controlPlane.missing)
    await using logs = await temporaryFolder()
    const told: string[] = []
    const faults = schedule({ seed, count })
    const { broken, skipped } = await soak({
      ...{ seed, rounds: [faults], folder: join(logs.dir, 'soak') },
      say: (line) => void told.push(line),
    })
    if (skipped !== undefined) await annotate(skipped)
    expect(broken, told.join('\n')).toEqual([])
  },
)
