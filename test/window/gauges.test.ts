import { expect, test } from 'vitest'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { eventually } from '../support/eventually.ts'
import { memory } from '../support/window/scene-gauges.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('each model in memory is a segment as wide as its share, and opens its service', async () => {
  await using window = await show(scenes.memory)
  const { page } = window
  const segments = page.getByRole('toolbar', { name: 'Models in memory' }).getByRole('button')
  const bar = await page.locator('[class*="_bar_"]').filter({ has: segments.first() }).first().boundingBox()
  const shares = await segments.evaluateAll((all) =>
    all.map((one) => ({ label: one.getAttribute('aria-label'), width: one.getBoundingClientRect().width })),
  )
  expect(shares.map(({ label, width }) => `${label}: ${Math.round((100 * width) / (bar?.width ?? 0))} %`)).toEqual([
    'phi-4-mini, Ready, 9.1 GB of memory: 9 %',
    'gemma-3-12b, Starting, 4.2 GB of memory, 6.2 GB more to come: 11 %',
    'llama-3.3-70b, Not ready, 25.8 GB of memory: 27 %',
    'smollm-360m, Stopping, 500 MB of memory: 2 %',
  ])
  await page.getByRole('button', { name: 'gemma-3-12b, Starting' }).click()
  await page.getByRole('heading', { name: 'gemma-3-12b' }).waitFor()
})

test('segments are reached with one Tab and left with the next', async () => {
  await using window = await show(scenes.memory)
  const { page } = window
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '')
  await eventually(async () => {
    await page.keyboard.press('Tab')
    return (await focused()).startsWith('phi-4-mini')
  })
  await page.keyboard.press('ArrowRight')
  const second = await focused()
  await page.keyboard.press('Tab')
  expect({ second, left: await focused() }).toEqual({
    second: 'gemma-3-12b, Starting, 4.2 GB of memory, 6.2 GB more to come',
    left: '',
  })
})

test('what the system does not tell of its memory is not drawn as zero', async () => {
  await using window = await show(scenes.memory)
  const { page, agent } = window
  const { totalBytes: _total, budgetBytes: _budget, ...rest } = memory
  agent.show(sampleSnapshot({ revision: 2, memory: rest, memoryFigures: {} }))
  await page.getByText('45.6 GB for models').waitFor()
  agent.show(sampleSnapshot({ revision: 3, memory, memoryFigures: {} }))
  await page.getByText('other not reported').waitFor()
  await page.getByText('free for models not reported').waitFor()
})

test('the course of power is drawn from what was seen, and a time without figures is a gap', async () => {
  await using window = await show(scenes.power)
  const { page } = window
  const course = page.getByRole('img', { name: /Power of the last two minutes: from 6\.\d W to 44\.\d W/ })
  await course.waitFor()
  expect(await course.locator('polyline').count()).toBe(2)
})

test('the app turns power on by itself, since it may set what a page may not', async () => {
  await using window = await show({ ...scenes['power-off'], press: [] })
  const { page, agent } = window
  await page.getByRole('button', { name: 'Turn on' }).click()
  await eventually(() => agent.asked.length === 1)
  expect(agent.asked[0]?.command).toEqual({ name: 'updateSettings', settings: { applePowerEnabled: true } })
})
