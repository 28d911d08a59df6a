import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { MemoryBook } from '../../../src/agent-core/memory/book.ts'
import { defaultFraction, resolveBudget } from '../../../src/agent-core/memory/budget.ts'
import { formatBytes } from '../../../src/contract/format.ts'

const page = await readFile(path.resolve(import.meta.dirname, '../../../docs/memory.md'), 'utf8')
const gib = 2 ** 30

function budgetOf(totalGib: number, gpuLimitGib?: number) {
  const result = resolveBudget({
    totalBytes: totalGib * gib,
    platform: 'darwin',
    ...(gpuLimitGib !== undefined && { gpuLimitBytes: gpuLimitGib * gib }),
  })
  if (!result.ok) throw new Error(result.message)
  return result.budget
}

test('the table of budgets in docs/memory.md is what the agent works out', () => {
  const rows = [...page.matchAll(/^\| (\d+) GiB +\| (\d+) % +\| ([\d.]+) GiB +\| ([\d.]+ GB) +\|$/gm)].map(
    ([, total, percent, budget, shown]) => ({
      total: Number(total),
      percent: Number(percent),
      budget: Number(budget),
      shown,
    }),
  )
  expect(rows.map(({ total }) => total)).toEqual([16, 24, 32, 36, 48, 64, 96, 128, 192, 512])
  expect(rows).toEqual(
    rows.map(({ total }) => {
      const { bytes } = budgetOf(total)
      return {
        total,
        percent: Math.round(defaultFraction(total * gib) * 100),
        budget: Number((bytes / gib).toFixed(1)),
        shown: formatBytes(bytes),
      }
    }),
  )
})

test('the worked examples in docs/memory.md are what the agent says', () => {
  const book = new MemoryBook(
    { budgetBytes: budgetOf(48).bytes, availableBytes: 40e9, pressure: 'normal' },
    () => undefined,
  )
  book.adopt({ key: 'ns/a', needBytes: 20e9, priority: 'normal' })
  const answer = book.admit({
    key: 'ns/b',
    uid: 'b',
    needBytes: 24e9,
    priority: 'normal',
    since: 0,
    enforcement: 'enforce',
  })
  const said = [budgetOf(48).how, budgetOf(128).how, budgetOf(128, 96).how, answer.admitted ? '' : answer.message]
  const quoted = [...page.matchAll(/^> (.*)$/gm)].map(([, sentence]) => sentence)
  expect(quoted.filter((sentence) => said.includes(sentence ?? ''))).toEqual(said)
})
