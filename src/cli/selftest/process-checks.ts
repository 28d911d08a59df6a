import { mkdtempSync } from 'node:fs'
import { mkdir, realpath, rm } from 'node:fs/promises'
import path from 'node:path'
import { darwinCommands } from '../../agent-core/platform/darwin.ts'
import { judged, notAsked, printed, type Check } from './check.ts'
import { settled, sleepingChild } from './own-child.ts'

const psUsage: Check = {
  id: 'ps-usage',
  asks: 'ps tells memory and processor time of a process',
  expected: 'kilobytes and minutes, without an entitlement',
  isForMacs: true,
  answer: async ({ run }) => {
    const answer = await run(darwinCommands.ps, ['-ww', '-o', 'rss=,time=', '-p', String(process.pid)])
    return judged(/^ *\d+ +\d+:\d\d\.\d\d *$/.test(answer.stdout), printed(answer))
  },
}

/** Of two clocks that are read a moment apart, in whole seconds. */
const closeMs = 5_000

const startTime: Check = {
  id: 'start-time',
  asks: 'ps tells by the clock of UTC when a process began',
  expected: 'when this command was started, to 5 s',
  isForMacs: true,
  answer: async ({ platform }) => {
    const facts = await platform.process(process.pid)
    if (facts === undefined) return judged(false, 'this process is not in the table')
    const ms = Date.parse(`${facts.startTime} UTC`)
    const distance = Math.round((ms - performance.timeOrigin) / 1_000)
    return judged(Math.abs(ms - performance.timeOrigin) < closeMs, `${facts.startTime}, ${distance} s from it`)
  },
}

const loginSession: Check = {
  id: 'login-session',
  asks: 'loginwindow of this login is found by its effective user',
  expected: 'uid of this user, whatever ruid',
  isForMacs: true,
  answer: async ({ run, platform }) => {
    const { stdout } = await run(darwinCommands.ps, ['-axww', '-o', 'uid=,ruid=,pid=,comm='])
    const rows = stdout.split('\n').filter((row) => /loginwindow\)?$/.test(row.trim()))
    if (rows.length === 0) return notAsked('no loginwindow runs: is somebody logged in at the screen?')
    const seen = rows.map((row) => {
      const [uid, ruid, pid] = row.trim().split(/\s+/)
      return `uid ${uid} ruid ${ruid} pid ${pid}`
    })
    const session = await platform.loginSession()
    const own = session === undefined ? `none is of uid ${process.geteuid?.()}` : `session ${session}`
    return judged(session !== undefined, `${seen.join('; ')}: ${own}`)
  },
}

const bootId: Check = {
  id: 'boot-id',
  asks: 'a boot has an id',
  expected: 'a UUID',
  isForMacs: false,
  answer: async ({ platform }) => {
    const id = await platform.bootId()
    return judged(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id), id.replaceAll(/[0-9a-f]/gi, 'x'))
  },
}

const zombie: Check = {
  id: 'zombie',
  asks: 'a process that ended and was not reaped counts as gone',
  expected: 'only its parent in the group',
  isForMacs: false,
  answer: async ({ platform, leftovers }) => {
    const parent = await sleepingChild(leftovers, { hasZombie: true })
    const members = await settled(
      () => platform.processGroup(parent),
      (group) => group.length === 1,
    )
    const found = members.map(({ pid, commandLine }) => (pid === parent ? 'its parent' : commandLine))
    return judged(found.length === 1 && found[0] === 'its parent', found.join(', ') || 'nothing')
  },
}

const environment: Check = {
  id: 'environment',
  asks: 'the environment of a process of ours is told',
  expected: 'the value it was started with',
  isForMacs: false,
  // This program itself: macOS tells nobody the environment of what Apple ships, such as a shell.
  answer: async ({ platform }) => {
    const [name, value] = Object.entries(process.env).find(([, text = '']) => /^\S+$/.test(text)) ?? []
    if (name === undefined) return notAsked('this program was started without an environment')
    const told = await platform.variableOf(process.pid, name)
    return judged(told === value, told === undefined ? 'not told' : told === value ? 'the same' : 'another value')
  },
}

/** Letters of one to three bytes, a blank, a backslash and a caret. */
const awkwardName = 'Büro 日本 a\\b 2^10'

const workplace: Check = {
  id: 'workplace',
  asks: 'the folder that a process works in is told letter by letter',
  expected: `…/${awkwardName}`,
  isForMacs: false,
  answer: async ({ platform, temporaryDir, leftovers }) => {
    // At once, so that nothing is made that is not known of when the time is up.
    const base = mkdtempSync(path.join(temporaryDir, 'metal-agent-selftest-'))
    leftovers.defer(() => rm(base, { recursive: true, force: true }))
    const cwd = path.join(base, awkwardName)
    await mkdir(cwd)
    const child = await sleepingChild(leftovers, { cwd })
    const place = (await platform.workplaces()).find(({ pid }) => pid === child)
    const [found, wanted] = [place?.workingDirectory, await realpath(cwd)]
    return judged(found === wanted, found === undefined ? 'not told' : `…/${path.basename(found)}`)
  },
}

export const processChecks: readonly Check[] = [
  psUsage,
  startTime,
  loginSession,
  bootId,
  zombie,
  environment,
  workplace,
]
