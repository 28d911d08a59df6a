import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import type { Browser } from 'playwright-core'
import { WindowServer } from '../src/serve/http/window-server.ts'
import { findBrowser, startBrowser } from '../test/support/window/browser.ts'
import type { AgentProcess } from './agent-process.ts'
import { BrowserPage } from './browser-page.ts'
import { inferenceService, metalModel, servedBySample } from './objects.ts'
import { poll } from './poll.ts'
import { cpuShares } from './proc.ts'
import type { Extent, Group, Row } from './row.ts'
import { ShownAgent } from './shown-agent.ts'
import { statisticsOf } from './statistics.ts'
import type { Site } from './world.ts'

const models = 30
const services = Array.from({ length: 10 }, (_, index) => `shown-${index}`)
/** Suspended, so that its model is shown and nothing is started. */
const changing = 'changing'
const updatesPerSecond = 4
const heapGoalSeconds = 600
/** What is made once (a trail of two minutes of power, compiled code) is there by then. */
const warmUpSeconds = 30
/** What follows a start is over by then. */
const settleSeconds = 15

/** The window in a real browser, over HTTP. */
export const window: Group = {
  name: 'window',
  measure: async (world, extent) => {
    const found = findBrowser()
    if ('missing' in found) return { skipped: found.missing }
    const folder = await world.buildWindow()
    const browser = await startBrowser(found.path)
    try {
      await using site = await world.openSite()
      await using agent = await startWithServices(site)
      return [
        await size(folder),
        ...(await firstPaint(agent, browser, extent)),
        ...(await updates(folder, browser, extent)),
        ...(await unseen(site, agent, browser, extent)),
      ]
    } finally {
      await browser.close()
    }
  },
}

/** All that a browser loads. */
async function size(folder: string): Promise<Row> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = files.filter((file) => file.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const sizes = await Promise.all(paths.map(async (path) => gzipSync(await readFile(path)).length))
  const kilobytes = sizes.reduce((sum, bytes) => sum + bytes, 0) / 1_000
  return { what: 'window, all files with gzip', unit: 'kB', values: [kilobytes], goal: 280 }
}

async function startWithServices(site: Site): Promise<AgentProcess> {
  const { admin, slices, modelFile } = site
  await using opening = new AsyncDisposableStack()
  await admin.create(metalModel('model', modelFile))
  const agent = opening.use(await site.startAgent())
  await agent.ready()
  await admin.create({ ...inferenceService(changing), spec: { modelRef: 'model', suspend: true } })
  await Promise.all(services.map((name) => admin.create(servedBySample(name, 'model', {}))))
  await Promise.all(services.map((name) => slices.until(name, 'ready')))
  opening.move()
  return agent
}

async function firstPaint(agent: AgentProcess, browser: Browser, { windowRuns }: Extent): Promise<Row[]> {
  await using client = await agent.connect()
  const anything: number[] = []
  const service: number[] = []
  while (anything.length < windowRuns) {
    await using page = await BrowserPage.open(browser, await client.openWindow())
    const first = await page.firstPaints()
    anything.push(first.anything)
    service.push(first.service)
  }
  return [
    { what: 'window opened → first paint', unit: 'ms', values: anything, goal: 300 },
    { what: `window opened → ${services.length} services painted`, unit: 'ms', values: service },
  ]
}

/** The agent is a stand-in here, so that every model changes with every snapshot; the carrier, the page and the browser are real. */
async function updates(folder: string, browser: Browser, { windowSeconds }: Extent): Promise<Row[]> {
  const shown = new ShownAgent(models)
  const server = new WindowServer({
    door: shown,
    folder,
    onError: (error) => {
      throw error
    },
  })
  try {
    await using page = await BrowserPage.open(browser, await server.open())
    await change(() => shown.change(), warmUpSeconds)
    const [paintsBefore, heapBefore] = [(await page.paints()).length, await page.heapBytes()]
    await change(() => shown.change(), windowSeconds)
    const paints = (await page.paints()).slice(paintsBefore)
    const megabytes = ((await page.heapBytes()) - heapBefore) / 1e6
    const note = `measured over ${windowSeconds} s with ${models} models that all change, ${paints.length} snapshots`
    return [
      { what: `snapshot → painted, ${models} models`, unit: 'ms', values: paints, goal: 50, note },
      {
        what: `heap that ${heapGoalSeconds / 60} min of ${updatesPerSecond} updates/s add to the page`,
        unit: 'MB',
        values: [(megabytes * heapGoalSeconds) / windowSeconds],
        goal: 5,
        note: windowSeconds < heapGoalSeconds ? `measured over ${windowSeconds} s and multiplied` : 'measured in full',
      },
    ]
  } finally {
    await server.close()
  }
}

/** What a page that nobody sees, or that is closed again, costs; the shares in turns, so that what else goes on is in all of them. */
async function unseen(
  { admin }: Site,
  agent: AgentProcess,
  browser: Browser,
  { windowUnseenSeconds }: Extent,
): Promise<Row[]> {
  await using client = await agent.connect()
  const share = async (): Promise<number> => {
    await delay(settleSeconds * 1_000)
    return statisticsOf(await cpuShares(agent.pid, windowUnseenSeconds)).median
  }
  const before = await share()
  const page = await BrowserPage.open(browser, await client.openWindow())
  let hidden: number
  let lines: number
  try {
    await page.hide()
    hidden = await share()
    const linesBefore = await page.lines()
    const revision = await revisionOf(agent)
    await admin.patch(inferenceService(changing), { spec: { modelRef: 'another' } })
    await poll('a change', async () => ((await revisionOf(agent)) > revision ? true : undefined))
    await delay(1_000)
    lines = (await page.lines()) - linesBefore
  } finally {
    await page[Symbol.asyncDispose]()
  }
  const closed = await share()
  const after = await share()
  const without = (before + after) / 2
  const alone = `without a window ${before.toFixed(2)} and ${after.toFixed(2)} % over ${windowUnseenSeconds} s each`
  return [
    { what: 'lines sent to a hidden page while something changed', unit: '', values: [lines], goal: 0 },
    { what: 'CPU that a hidden window adds', unit: '%', values: [hidden - without], goal: 0.1, note: alone },
    { what: 'CPU that a closed window adds', unit: '%', values: [closed - without], goal: 0.1 },
  ]
}

const revisionOf = async (agent: AgentProcess): Promise<number> => (await agent.snapshot()).revision

/** Calls `step` as often as the agent would tell of a change, for so long. */
async function change(step: () => void, seconds: number): Promise<void> {
  const endsAt = performance.now() + seconds * 1_000
  while (performance.now() < endsAt) {
    step()
    await delay(1_000 / updatesPerSecond)
  }
}
