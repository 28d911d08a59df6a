import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import type { FakeAgent } from '../support/window/fake-agent.ts'
import { measuring } from '../support/window/scene-gauges.ts'
import { gigabyte } from '../support/window/scene-services.ts'
import { type SceneName, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

const updates = 40

test.each([
  { scene: 'services', words: 'On another machine' },
  { scene: 'add-fits', words: '4.6 GB with a context of 8,192 tokens' },
  { scene: 'activity', words: 'Show more' },
] as const satisfies readonly { scene: SceneName; words: string }[])(
  'nothing of $scene moves while its figures change',
  async ({ scene, words }) => {
    await using window = await show(scenes[scene])
    const { page, agent } = window
    await page.getByText(words).first().waitFor()
    change(agent, 0)
    await painted(page)
    await watchShifts(page)
    for (let count = 1; count <= updates; count += 1) {
      change(agent, count)
      await painted(page)
    }
    expect(await page.evaluate('window.shifts')).toEqual([])
  },
)

test.each([
  { scene: 'add', field: 'Model' },
  { scene: 'activity', field: 'Filter' },
] as const satisfies readonly { scene: SceneName; field: string }[])(
  'no key is lost in the field “$field” while figures change',
  async ({ scene, field }) => {
    await using window = await show(scenes[scene])
    const { page, agent } = window
    const input = page.getByLabel(field, { exact: true })
    await input.fill('')
    await input.focus()
    const text = 'tiny model, number 12'
    for (const [at, letter] of Array.from(text).entries()) {
      change(agent, at)
      await page.keyboard.type(letter)
    }
    // In the middle too, where a field that is drawn anew would send the caret to its end.
    for (let count = 0; count < 4; count += 1) await page.keyboard.press('ArrowLeft')
    change(agent, updates)
    await painted(page)
    await page.keyboard.type('!')
    expect([await input.inputValue(), await input.evaluate((one) => one === document.activeElement)]).toEqual([
      'tiny model, numbe!r 12',
      true,
    ])
  },
)

/** Memory, tokens, power and the clock, as they go on from one snapshot to the next. */
function change(agent: FakeAgent, count: number): void {
  const { shown } = agent
  const figures = Object.entries(shown.figures).map(([uid, before]) => [
    uid,
    {
      ...before,
      footprintBytes: (9 + (count % 10) / 10) * gigabyte,
      powerShareWatts: 10 + (count % 30),
      runtime: { state: 'reported' as const, generatedTokensPerSecond: 40 + (count % 13), requestsRunning: count % 4 },
    },
  ])
  agent.show({
    ...shown,
    now: new Date(Date.parse(shown.now) + 250).toISOString(),
    revision: shown.revision + 1,
    figures: Object.fromEntries(figures) as typeof shown.figures,
    memoryFigures: { availableBytes: (40 + (count % 7)) * gigabyte, freeBytes: (20 + (count % 7)) * gigabyte },
    ...measuring,
    powerFigures: { combinedWatts: 41.2 + (count % 9), gpuWatts: 33 + (count % 9), cpuWatts: 8.1 },
  })
}

const painted = (page: Page) =>
  page.evaluate(
    () => new Promise<void>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve()))),
  )

/** What moved although no key or button was pressed, by its markup; the parts of a chart are there to move. */
const watchShifts = (page: Page) =>
  page.evaluate(`{
    window.shifts = []
    new PerformanceObserver((list) => {
      for (const { sources } of list.getEntries()) {
        for (const { node } of sources) {
          const element = node instanceof Element ? node : node?.parentElement
          if (!element?.closest('[data-chart]')) window.shifts.push((element?.outerHTML ?? 'gone').slice(0, 200))
        }
      }
    }).observe({ type: 'layout-shift' })
  }`)
