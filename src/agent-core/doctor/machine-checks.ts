import { constants } from 'node:fs'
import { access, realpath, stat, statfs } from 'node:fs/promises'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { usualReserveBytes } from '../models/download/limits.ts'
import { placeOf, temporaryNote } from '../models/store/watch.ts'
import { allowCommand, firewallNotice } from '../publishing/firewall-watch.ts'
import { runtimes as runtimeTable } from '../runtimes/runtimes.ts'
import { isBelow } from '../util/is-below.ts'
import { messageOf } from '../util/message-of.ts'
import { formatBytes } from '../../contract/format.ts'
import { runtimeState } from '../../contract/queries.ts'
import { shellWord } from '../../contract/shell.ts'
import { toldOfRelays } from './relay-checks.ts'
import { type Check, type Examination, fail, notApplicable, pass, warn } from './doctor.ts'

const runtimes: Check = {
  id: 'runtimes',
  asks: 'Is a runtime installed, and does it run?',
  page: 'runtimes.md',
  answer: async (examination) => {
    const views = await examination.runtimes()
    const named = (state: ReturnType<typeof runtimeState>) => views.filter((view) => runtimeState(view) === state)
    const ready = named('ready').map(({ name, version = '' }) => `${name} ${version}`.trim())
    const broken = named('unverified').map(({ message = '' }) => message)
    if (ready.length === 0) {
      const says = broken[0] ?? views[0]?.message ?? 'This machine offers no runtime.'
      return fail(says, { text: 'Install one.', shell: 'metal-agent runtimes install llama-server' })
    }
    if (broken.length > 0) return warn(`${ready.join(', ')} can serve; ${broken.join(' ')}`)
    return pass(`${ready.join(', ')} can serve.`)
  },
}

const metal: Check = {
  id: 'metal',
  asks: 'Does this machine have a GPU with Metal?',
  page: 'troubleshooting.md#metal-is-not-detected',
  answer: async ({ patient: { platform } }) => {
    const { available, message } = await platform.metal()
    if (available) return pass(message)
    return platform.name === 'darwin' ? fail(message) : notApplicable(message)
  },
}

/** Where macOS and others keep copies in a cloud, which move files away and rename them. */
const syncedFolders = (home: string): readonly string[] => [
  ...['Library/Mobile Documents', 'Library/CloudStorage', 'Dropbox', 'OneDrive', 'Google Drive'].map((name) =>
    join(home, name),
  ),
]
/** Synced where a person has chosen "Desktop & Documents" in iCloud. */
const maybeSynced = (home: string): readonly string[] => [join(home, 'Documents'), join(home, 'Desktop')]

const storePlace: Check = {
  id: 'model-store',
  asks: 'Is the model store outside of folders that a cloud service syncs?',
  page: 'models.md#the-store',
  answer: async ({ patient: { settings, env, platform } }) => {
    const { modelStore } = settings
    const real = await realpath(modelStore).catch(() => modelStore)
    const home = env['HOME'] ?? homedir()
    const move = { text: 'Keep models elsewhere with --model-store.' }
    const wiped = temporaryNote(modelStore) ?? temporaryNote(real)
    if (wiped !== undefined) return fail(wiped, move)
    if (syncedFolders(home).some((folder) => isBelow(real, folder))) {
      return fail(`The model store ${modelStore} is in a folder that a cloud service syncs.`, move)
    }
    if (platform.name === 'darwin' && maybeSynced(home).some((folder) => isBelow(real, folder))) {
      return warn(`The model store ${modelStore} is in a folder that iCloud may sync.`, move)
    }
    return pass(`Models are stored in ${modelStore}.`)
  },
}

/** A model of 7 billion parameters with 4 bits each takes about this. */
const smallModelBytes = 5e9

const disk: Check = {
  id: 'disk',
  asks: 'Is there room on the disk for another model?',
  page: 'models.md#what-is-deleted-and-when',
  answer: async ({ patient: { settings } }) => {
    const { bavail, blocks, bsize } = await statfs((await placeOf(settings.modelStore)).nearest)
    const freeBytes = bavail * bsize
    const reserveBytes = usualReserveBytes(blocks * bsize)
    const room = Math.max(0, freeBytes - reserveBytes)
    const says = `${formatBytes(freeBytes)} are free where models are kept, of which ${formatBytes(reserveBytes)} stay in reserve.`
    const clean = { text: 'Delete models that no service uses.', shell: 'metal-agent models' }
    if (room === 0) return fail(says, clean)
    return room < smallModelBytes ? warn(says, clean) : pass(says)
  },
}

const stateFolder: Check = {
  id: 'state-folder',
  asks: 'Can the agent write to its state folder?',
  page: 'operations.md#what-survives-what',
  answer: async ({ patient: { settings } }) => {
    const { stateDir } = settings
    const folder = (await placeOf(stateDir)).nearest
    const action = {
      text: 'Make this user the owner of the folder, or name another with --state-dir.',
      shell: `ls -ld ${shellWord(folder)}`,
    }
    if (!(await stat(folder)).isDirectory()) return fail(`${stateDir} cannot be created: ${folder} is a file.`, action)
    try {
      await access(folder, constants.W_OK | constants.X_OK)
      return pass(`${stateDir} can be written.`)
    } catch (error) {
      return fail(`${stateDir} cannot be written: ${messageOf(error)}.`, action)
    }
  },
}

const gpuLimit: Check = {
  id: 'gpu-limit',
  asks: 'Is the limit of GPU memory safe for this Mac?',
  page: 'memory.md#budget',
  answer: async ({ patient: { platform } }) => {
    if (platform.name !== 'darwin') return notApplicable('Only macOS has such a limit.')
    const [limit, { totalBytes }] = await Promise.all([platform.gpuMemoryLimit(), platform.memory()])
    if (!limit) return pass('macOS sets it.')
    const says = `The limit of GPU memory is ${formatBytes(limit)} of ${formatBytes(totalBytes)}.`
    const text = 'Let macOS set it again, or choose a value in between.'
    const action = { text, shell: 'sudo sysctl iogpu.wired_limit_mb=0' }
    if (limit > 0.95 * totalBytes) return fail(`${says} What is left is too little for macOS itself.`, action)
    // macOS itself gives about two thirds to three quarters.
    return limit < 0.5 * totalBytes ? warn(`${says} That is less than macOS would give.`, action) : pass(says)
  },
}

const firewall: Check = {
  id: 'firewall',
  asks: 'Does the macOS firewall let Pods reach the runtimes?',
  page: 'troubleshooting.md#the-firewall-asks-or-blocks',
  answer: async (examination) => {
    const { platform, settings, agent } = examination.patient
    const found = await platform.firewall()
    if (!found) return notApplicable('This system has no firewall for single programs, or does not report one.')
    if (found.state === 'off') return pass('The firewall is off.')
    const blocked = [...new Set(await listeners(examination))].filter((program) => firewallNotice(found, program))
    const [first] = blocked
    if (first === undefined) return pass('The firewall is on and lets Pods reach the runtimes.')
    // macOS asks about a program when it first listens.
    const isServing = agent?.snapshot.services.some(({ state }) => state === 'ready') ?? false
    const told = settings.listen === 'gateway' || !isServing ? warn : fail
    if (found.state === 'blocksAll') return told(firewallNotice(found, first) ?? '')
    return told(`The firewall does not let Pods reach ${blocked.join(', ')}.`, {
      text: 'Allow these programs, then look again.',
      shell: blocked.map(allowCommand).join('; '),
    })
  },
}

/** The files of the programs that Pods are sent to: macOS judges what a link leads to. */
async function listeners(examination: Examination): Promise<string[]> {
  const { patient } = examination
  const { settings } = patient
  const paths = (await examination.runtimes()).flatMap(({ name, path }) => {
    const isOpen = name in runtimeTable && !runtimeTable[name as keyof typeof runtimeTable].isBehindGateway
    return isOpen && path !== undefined && isAbsolute(path) ? [path] : []
  })
  const { told, isAlone } = toldOfRelays(patient)
  const isBehindGateway = settings.listen === 'gateway' || paths.length === 0 || isAlone
  // The gateway is a process of this program.
  const programs = isBehindGateway ? [process.execPath] : [...paths, ...(told.length > 0 ? [process.execPath] : [])]
  return Promise.all(programs.map((path) => realpath(path).catch(() => path)))
}

const sleep: Check = {
  id: 'sleep',
  asks: 'Does this machine stay awake for requests?',
  page: 'operations.md#sleep-and-battery',
  answer: async ({ patient: { platform, settings } }) => {
    const supply = await platform.powerSupply()
    const minutes = supply?.sleepAfterMinutes
    if (minutes === undefined) return notApplicable('The system does not report when it goes to sleep on its own.')
    if (minutes === 0) return pass('This machine never goes to sleep on its own.')
    const says = `This machine goes to sleep after ${minutes} min without use, and then misses the first request.`
    const shell = 'sudo pmset -c sleep 0'
    return warn(
      settings.sleepPolicy === 'never' ? `${says} Nothing keeps it awake, even while models answer.` : says,
      supply?.charge === undefined
        ? { text: 'If this machine is a server, never let it go to sleep on mains power.', shell }
        : { text: 'It can be kept awake on mains power.', shell },
    )
  },
}

const lowPower: Check = {
  id: 'low-power-mode',
  asks: 'Does this machine run at full speed?',
  page: 'operations.md#sleep-and-battery',
  answer: async ({ patient: { platform } }) => {
    const supply = await platform.powerSupply()
    if (!supply) return notApplicable('The system does not report a Low Power Mode.')
    if (!supply.lowPowerMode) return pass('Low Power Mode is off.')
    return warn('Low Power Mode is on: models answer at about half their speed.', {
      text: 'Switch it off in System Settings, Energy.',
      shell: 'sudo pmset -a lowpowermode 0',
    })
  },
}

const powerRule: Check = {
  id: 'power-rule',
  asks: 'May the agent measure power as root, and run nothing else?',
  page: 'power.md#permission-to-measure',
  answer: async ({ patient }) => {
    const { state, message, file } = await patient.powerRule()
    switch (state) {
      case 'notHere':
        return notApplicable('Only macOS needs a sudo rule to measure power.')
      case 'installed':
        return pass(`sudo lets the agent run powermetrics, by ${file}.`)
      case 'missing':
        return patient.settings.applePowerEnabled
          ? warn('There is no sudo rule for powermetrics, although it is set to measure power.', installRule)
          : notApplicable('Power is not measured by powermetrics here.')
      case 'different':
      case 'unknown':
        return warn(message ?? `The rule in ${file} is not the one that Metalbar installs.`, installRule)
    }
  },
}

const installRule = { text: 'Install the rule. You see it first.', shell: 'metal-agent power install' }

export const machineChecks: readonly Check[] = [
  ...[runtimes, metal, storePlace, disk, stateFolder],
  ...[gpuLimit, firewall, sleep, lowPower, powerRule],
]
