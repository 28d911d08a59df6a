import { setTimeout as delay } from 'node:timers/promises'
import { busyServices, busyTurns, iconAfterCpuMs } from '../test/support/busy-app.ts'
import buildApp from '../test/support/electron-stand-in/global-setup.ts'
import { servingWorld } from '../test/support/serving-world.ts'
import { ShellApp } from '../test/support/shell-app.ts'
import { shellWorld } from '../test/support/shell-world.ts'
import { findBrowser } from '../test/support/window/browser.ts'
import { poll, secondsSince } from './poll.ts'
import type { Extent, Group, Row } from './row.ts'

/** Announced to a page that is seen within this. */
const settledMs = 1_000
/** Within the minute after which a hidden window is destroyed. */
const changes = 5

/** The menu-bar app on the stand-in for Electron, at a simulated cluster. */
export const shell: Group = {
  name: 'shell',
  measure: async (_world, { shellRuns }: Extent) => {
    const found = findBrowser()
    if ('missing' in found) return { skipped: found.missing }
    await buildApp()
    return [await start(shellRuns), await turns(shellRuns), await hidden(), ...(await sleeps(shellRuns))]
  },
}

async function start(runs: number): Promise<Row> {
  const values = await several(runs, iconAfterCpuMs)
  const note = 'processor time of the built app, with that of the stand-in'
  return { what: 'app started → icon', unit: 'ms', values, goal: 1_000, note }
}

async function turns(runs: number): Promise<Row> {
  const what = `app: 99 % of the turns of its event loop, ${busyServices} services change`
  const values = (await several(runs, busyTurns)).map(({ p99Ms }) => p99Ms)
  return { what, unit: 'ms', values, goal: 50, note: 'processor time, while a model downloads and the menu is opened' }
}

/** The services change before and after, so that what is not sent is known to have been there to be sent. */
async function hidden(): Promise<Row> {
  await using shell = await shellWorld()
  const { world, app } = shell
  await shell.open()
  await app.ask({ do: 'clickElsewhere' })
  const sent = async () => {
    const [window] = (await app.look()).windows
    if (!window) throw new Error('The hidden window is gone already.')
    return window.sent
  }
  await delay(settledMs)
  const before = await sent()
  for (let change = 1; change <= changes; change += 1) {
    world.apply(`model-${change}`)
    await app.icon('serving', `Serving ${change} model`)
  }
  await delay(settledMs)
  const values = [(await sent()) - before]
  return { what: `app: messages to a hidden window while ${changes} models start`, unit: '', values, goal: 0 }
}

async function sleeps(runs: number): Promise<Row[]> {
  await using world = await servingWorld()
  await using app = await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences })
  world.apply('tiny')
  await app.icon('serving')
  const untilPublished = (isWanted: boolean) =>
    poll('the slice', () => (world.published('tiny') !== undefined) === isWanted || undefined)
  const times = await several(runs, async () => {
    const suspendedAt = performance.now()
    await app.ask({ do: 'power', event: 'suspend' })
    await untilPublished(false)
    const withdrawn = secondsSince(suspendedAt)
    const resumedAt = performance.now()
    await app.ask({ do: 'power', event: 'resume' })
    await untilPublished(true)
    return { withdrawn, published: secondsSince(resumedAt) }
  })
  return [
    { what: 'app: sleep announced → withdrawn', unit: 's', values: times.map(({ withdrawn }) => withdrawn), goal: 1 },
    { what: 'app: awake again → published', unit: 's', values: times.map(({ published }) => published), goal: 2 },
  ]
}

async function several<T>(runs: number, measure: () => Promise<T>): Promise<T[]> {
  const values: T[] = []
  while (values.length < runs) values.push(await measure())
  return values
}
