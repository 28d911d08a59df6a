import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Browser } from 'playwright'
import { WindowServer } from '../src/serve/http/window-server.ts'
import { findBrowser, startBrowser } from '../test/support/window/browser.ts'
import type { AgentProcess } from './agent-process.ts'
import { BrowserPage } from './browser-page.ts'
import type { Extent, Group, Row } from './row.ts'
import { repeat, startServing } from './serving-site.ts'
import { ShownAgent } from './shown-agent.ts'
import { unseenWindow } from './unseen-window.ts'
import type { Site, World } from './world.ts'

const models = 30
const services = Array.from({ length: 10 }, (_, index) => `shown-${index}`)
const updatesPerSecond = 4
const heapGoalSeconds = 600
/** What is made once (a trail of two minutes of power, compiled code) is there by then. */
const warmUpSeconds = 30

/** The window in a real browser, over HTTP. */
export const window: Group = {
  name: 'window',
  measure: async (world, extent) => {
    const found = findBrowser()
    if ('missing' in found) return { skipped: found.missing }
    const folder = await world.buildWindow()
    const browser = await startBrowser(found.path)
    await using opened = new AsyncDisposableStack()
    opened.defer(() => browser.close())
    const [updated, { agent, rows }] = await both(
      updates(folder, browser, extent),
      watchUnseen(world, opened, browser, extent),
    )
    return [await size(folder), ...(await firstPaint(agent, browser, extent)), ...updated, ...rows]
  },
}

/** Each to its end, whatever becomes of the other: what one uses is not closed under it. */
async function both<A, B>(first: Promise<A>, second: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([first, second])
  return [await first, await second]
}

/** Also answers an agent that is left alone from then on. */
async function watchUnseen(
  world: World,
  opened: AsyncDisposableStack,
  browser: Browser,
  { windowUnseenSeconds: seconds }: Extent,
): Promise<{ readonly agent: AgentProcess; readonly rows: Row[] }> {
  const site = opened.use(await world.openSite())
  const other = opened.use(await world.openSite())
  const served = async (where: Site) => opened.use(await startServing(where, services))
  const [agent, alone] = await both(served(site), served(other))
  return { agent, rows: await unseenWindow({ browser, site, agent, alone, seconds }) }
}

/** All that a browser loads. */
async function size(folder: string): Promise<Row> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = files.filter((file) => file.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const sizes = await Promise.all(paths.map(async (path) => gzipSync(await readFile(path)).length))
  const kilobytes = sizes.reduce((sum, bytes) => sum + bytes, 0) / 1_000
  return { what: 'window, all files with gzip', unit: 'kB', values: [kilobytes], goal: 280 }
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
    await repeat(() => shown.change(), 1_000 / updatesPerSecond, warmUpSeconds)
    const [paintsBefore, heapBefore] = [(await page.paints()).length, await page.heapBytes()]
    await repeat(() => shown.change(), 1_000 / updatesPerSecond, windowSeconds)
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
