import { setTimeout as delay } from 'node:timers/promises'
import type { Browser } from 'playwright'
import type { AgentProcess } from './agent-process.ts'
import { BrowserPage } from './browser-page.ts'
import { poll } from './poll.ts'
import type { Row } from './row.ts'
import { changeOnce } from './serving-site.ts'
import type { Site } from './world.ts'

/** What follows the opening and closing of a page is over by then. */
const calmSeconds = 4

export interface Compared {
  readonly browser: Browser
  readonly site: Site
  /** The agent of the site. */
  readonly agent: AgentProcess
  /** One that does the same at the same time, and never has a window. */
  readonly alone: AgentProcess
  readonly seconds: number
}

/**
 * What a page costs that nobody sees, or that is closed again: what the agent takes more than the one beside it, against the same before
 * there was a page, so that what else runs on this machine is in both.
 */
export async function unseenWindow({ browser, site, agent, alone, seconds }: Compared): Promise<Row[]> {
  await using client = await agent.connect()
  const more = async (): Promise<{ readonly than: number; readonly by: number }> => {
    await delay(calmSeconds * 1_000)
    const before = [agent, alone].map((one) => one.cpuSeconds())
    const startedAt = performance.now()
    await delay(seconds * 1_000)
    const after = [agent, alone].map((one) => one.cpuSeconds())
    const share = (at: 0 | 1) => (((after[at] ?? 0) - (before[at] ?? 0)) * 100_000) / (performance.now() - startedAt)
    return { than: share(1), by: share(0) - share(1) }
  }
  const before = await more()
  const page = await BrowserPage.open(browser, await client.openWindow())
  let hidden: Awaited<ReturnType<typeof more>>
  let lines: number
  try {
    await page.hide()
    const linesBefore = await page.lines()
    hidden = await more()
    await somethingChanged(site, agent)
    lines = (await page.lines()) - linesBefore
  } finally {
    await page[Symbol.asyncDispose]()
  }
  const closed = await more()
  const than = [before, hidden, closed].map((one) => `${one.than.toFixed(2)} %`).join(', ')
  const note = `against an agent beside it that has none and takes ${than}, ${seconds} s each`
  return [
    { what: 'lines sent to a hidden page while something changed', unit: '', values: [lines], goal: 0 },
    { what: 'CPU that a hidden window adds', unit: '%', values: [hidden.by - before.by], goal: 0.1, note },
    { what: 'CPU that a closed window adds', unit: '%', values: [closed.by - before.by], goal: 0.1 },
  ]
}

/** And long enough ago that a page which is told of it would know. */
async function somethingChanged(site: Site, agent: AgentProcess): Promise<void> {
  const revision = async () => (await agent.snapshot()).revision
  const before = await revision()
  await changeOnce(site)
  await poll('a change', async () => ((await revision()) > before ? true : undefined))
  await delay(1_000)
}
