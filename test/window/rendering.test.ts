import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { sampleService, sampleSnapshot } from '../support/sample-snapshot.ts'
import { inMemory } from '../support/window/scene-gauges.ts'
import { FakeAgent } from '../support/window/fake-agent.ts'
import { useStage } from './stage.ts'

const show = useStage()

const names = Array.from({ length: 30 }, (_, index) => `service-${index + 1}`)
const services = names.map((name) => sampleService({ uid: name, name }))

test('a change of one service draws that one again and no other', async () => {
  await using window = await show({ agent: () => new FakeAgent(sampleSnapshot({ services })) })
  const { page, agent } = window
  await page.getByRole('option', { name: 'service-30', exact: false }).waitFor()
  await rememberRows(page)
  const next = services.map((service) =>
    service.name === 'service-7' ? { ...service, revision: 2, message: 'Changed.' } : service,
  )
  agent.show(sampleSnapshot({ revision: 2, services: next }))
  await page.getByText('Changed.').waitFor()
  expect(await rowsDrawnSince(page)).toEqual(['service-7'])
})

test('a figure that changes draws no service again', async () => {
  const figures = (doneBytes: number) => ({
    'service-7': { progress: { doneBytes, totalBytes: 100e9, bytesPerSecond: 1e6 } },
    'service-8': { progress: { doneBytes: 1e9, totalBytes: 100e9, bytesPerSecond: 1e6 } },
  })
  await using window = await show({ agent: () => new FakeAgent(sampleSnapshot({ services, figures: figures(1e9) })) })
  const { page, agent } = window
  await page.getByText('1 % · 1.0 GB of 100 GB').first().waitFor()
  await rememberRows(page)
  agent.show(sampleSnapshot({ revision: 2, services, figures: figures(50e9) }))
  await page.getByText('50 % · 50.0 GB of 100 GB').waitFor()
  expect(await rowsDrawnSince(page)).toEqual([])
})

test('memory, power and the figures of a row change without drawing a row again', async () => {
  const snapshot = (revision: number, footprintBytes: number, combinedWatts: number) => ({
    ...sampleSnapshot({ revision, services, memory: inMemory.memory, memoryFigures: inMemory.memoryFigures }),
    figures: { 'service-7': { footprintBytes } },
    power: { state: 'measuring', message: 'Measured.' } as const,
    powerFigures: { combinedWatts },
  })
  await using window = await show({ agent: () => new FakeAgent(snapshot(1, 1e9, 10)) })
  const { page, agent } = window
  await page.getByText('10.0 W').waitFor()
  await rememberRows(page)
  agent.show(snapshot(2, 2e9, 20))
  await page.getByText('20.0 W').waitFor()
  await page.getByRole('option', { name: 'service-7' }).getByText('2.0 GB').waitFor()
  expect(await rowsDrawnSince(page)).toEqual([])
})

/** What React keeps for a component. */
interface Fiber {
  readonly child: Fiber | null
  readonly sibling: Fiber | null
  /** Made anew whenever the component around it is drawn and so draws this one again. */
  readonly memoizedProps: unknown
}

interface Probe {
  /** The props of each service's row, by name of the service. */
  readonly rows: () => Map<string, object>
  readonly before: Map<string, object>
}

async function rememberRows(page: Page): Promise<void> {
  await page.evaluate(() => {
    const rows = () => {
      const found = new Map<string, object>()
      const root = document.querySelector('#root') ?? document.body
      const key = Object.keys(root).find((name) => name.startsWith('__reactContainer$')) ?? ''
      const host = Reflect.get(root, key) as { stateNode: { current: Fiber } }
      const visit = (fiber: Fiber | null): void => {
        if (fiber === null) return
        const props = fiber.memoizedProps
        if (typeof props === 'object' && props !== null && 'service' in props) {
          found.set((props.service as { name: string }).name, props)
        }
        visit(fiber.child)
        visit(fiber.sibling)
      }
      visit(host.stateNode.current)
      return found
    }
    Object.assign(window, { probe: { rows, before: rows() } satisfies Probe })
  })
}

function rowsDrawnSince(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const { rows, before } = Reflect.get(window, 'probe') as Probe
    return [...rows()].filter(([name, props]) => before.get(name) !== props).map(([name]) => name)
  })
}
