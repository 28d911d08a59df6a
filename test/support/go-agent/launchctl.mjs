// Stands in for launchctl, but for print: $HOME/launchd has a file for each label that is loaded, with pid and plist and, in a second line, how
// the job ends; $HOME/launchctl.calls has every call.
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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
function loadedJob() {
  if (!existsSync(entry(label))) return undefined
  const [job, end] = readFileSync(entry(label), 'utf8').split('\n')
  const [pid, ...file] = job.split(' ')
  return { pid: Number(pid), file: file.join(' '), ...JSON.parse(end) }
}
const loaded = loadedJob()
const isRunning = (pid) => {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

function run(file) {
  const job = parse(readFileSync(file, 'utf8'))
  const { Label, ProgramArguments, EnvironmentVariables = {}, WorkingDirectory = '/', StandardErrorPath = '' } = job
  const { AbandonProcessGroup = false, ExitTimeOut = 5 } = job
  const [command, ...args] = ProgramArguments
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...EnvironmentVariables }
  // Nothing is written outside of the home of the test.
  const output = StandardErrorPath.startsWith(state) ? openSync(StandardErrorPath, 'a') : 'ignore'
  const stdio = ['ignore', output, output]
  const child = spawn(command, args, { detached: true, stdio, env, cwd: WorkingDirectory })
  child.unref()
  writeFileSync(entry(Label), `${child.pid} ${file}\n${JSON.stringify({ AbandonProcessGroup, ExitTimeOut })}\n`)
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
    for (let waited = 0; isRunning(loaded.pid) && waited < loaded.ExitTimeOut * 1_000; waited += 20) await delay(20)
    kill(loaded.pid, 'SIGKILL')
    if (!loaded.AbandonProcessGroup) kill(-loaded.pid, 'SIGKILL')
    break
  }
  default:
    process.exit(64)
}
