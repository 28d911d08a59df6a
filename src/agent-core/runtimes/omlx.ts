import { access } from 'node:fs/promises'
import { defaultOmlxPort, nameOf, omlxArguments, omlxBasePath, prepareOmlx } from '../servers/omlx.ts'
import { folderProblem } from './mlx-folder.ts'
import type { DaemonRuntime } from './runtime.ts'

/**
 * An oMLX that a person runs, with the models in its own folders, or that this agent starts: its API would let any client load and unload them, and its pages do more. So it
 * is reached through the gateway alone.
 */
export const omlxRuntime: DaemonRuntime = {
  kind: 'daemon',
  name: 'omlx',
  aliases: [],
  formats: ['mlx', 'safetensors'],
  product: 'oMLX',
  port: 'omlxPort',
  portFlag: '--omlx-port',
  howToStart:
    'open the oMLX app, run "omlx serve", have the agent start it (--omlx-start), or give its port with --omlx-port; https://github.com/jundot/omlx says how to install it',
  // Servers under development have this port too: they are not asked on a machine that never had an oMLX.
  mayRun: async (port) => port !== defaultOmlxPort || (await isThere(omlxBasePath())),
  start: {
    setting: { name: 'omlxStart', flag: '--omlx-start', program: 'omlxBin' },
    program: {
      name: 'omlx',
      flag: '--omlx-bin',
      notInstalled: {
        darwin:
          'omlx is not installed here, so --omlx-start cannot start it: install it as https://github.com/jundot/omlx says, or give its path with --omlx-bin.',
        linux: 'omlx is not on PATH, so --omlx-start cannot start it: give its path with --omlx-bin.',
      },
    },
    prepare: prepareOmlx,
    command: (place) => ({ argv: omlxArguments(place), environment: {} }),
    // Memory that it had wired may stay so until the machine is started again.
    isNeverKilled: true,
  },
  flags: { table: new Map(), program: 'omlx', product: 'oMLX', isStrict: true },
  settingsOfAll: ['turboQuantBits', 'pagedSSDCacheDir', 'hotCacheMaxSize', 'pagedSSDCacheMaxSize', 'extraArgs'],
  argv: ({ modelPath }) => ['--model', modelPath],
  content: ({ modelPath }) => ({ name: nameOf(modelPath), files: [modelPath], isOurs: false }),
  fieldProblem: () => undefined,
  modelProblem: folderProblem,
  sizing: 'safetensors',
  isBehindGateway: true,
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
