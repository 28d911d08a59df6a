// Stands in for launchctl, but for print: $HOME/launchd has a file for each label that is loaded, with pid and plist, and $HOME/launchctl.calls
// every call.
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'plist'

const state = process.env.HOME
const calls = join(state, 'launchctl.calls')
const [verb = '', first = '', second = ''] = process.argv.slice(2)
mkdirSync(join(state, 'launchd'), { recursive: true })
appendFileSync(calls, `${process.argv.slice(2).join(' ')}\n`)

const label = first.split('/').at(-1)
const entry = (name) => join(state, 'launchd', name)
const [pid, file] = existsSync(entry(label)) ? readFileSync(entry(label), 'utf8').split(' ') : []
const loaded = pid === undefined ? undefined : { pid: Number(pid), file: file.trim() }
const isRunning = (pid) => {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

function run(file) {
  const { Label, ProgramArguments, EnvironmentVariables = {} } = parse(readFileSync(file, 'utf8'))
  const [command, ...args] = ProgramArguments
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...EnvironmentVariables }
  const child = spawn(command, args, { detached: true, stdio: 'ignore', env })
  child.unref()
  writeFileSync(entry(Label), `${child.pid} ${file}\n`)
}

switch (verb) {
  case 'enable':
    break
  case 'bootstrap':
    run(second)
    break
  case 'kickstart':
    if (!loaded) process.exit(113)
    if (!isRunning(loaded.pid)) run(loaded.file)
    break
  case 'bootout': {
    if (!loaded) process.exit(3)
    rmSync(entry(label))
    const kill = (pid, signal) => {
      try {
        process.kill(pid, signal)
      } catch {
        // It is gone.
      }
    }
    kill(loaded.pid, 'SIGTERM')
    for (let waited = 0; isRunning(loaded.pid) && waited < 5_000; waited += 20) await delay(20)
    kill(loaded.pid, 'SIGKILL')
    // What is left of the group of a job without AbandonProcessGroup.
    kill(-loaded.pid, 'SIGKILL')
    break
  }
  default:
    process.exit(64)
}
