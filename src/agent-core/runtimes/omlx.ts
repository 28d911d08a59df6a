import { access } from 'node:fs/promises'
import { defaultOmlxPort, nameOf, omlxBasePath } from '../servers/omlx.ts'
import { folderProblem } from './mlx-folder.ts'
import type { DaemonRuntime } from './runtime.ts'

/**
 * An oMLX that a person runs, with the models in its own folders: its API would let any client load and unload them, and its pages do more. So it
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
    'open the oMLX app or run "omlx serve", or say with --omlx-port where it listens; https://github.com/jundot/omlx says how it is installed',
  // Servers under development have this port too: they are not asked on a machine that never had an oMLX.
  mayRun: async (port) => port !== defaultOmlxPort || (await isThere(omlxBasePath())),
  flags: { table: new Map(), program: 'omlx', product: 'oMLX', isStrict: true },
  // Nothing of the spec reaches it.
  argv: ({ modelPath }) => ['--model', modelPath],
  content: ({ modelPath }) => ({ name: nameOf(modelPath), files: [modelPath], isOurs: false }),
  fieldProblem: ({ extraArgs }) =>
    extraArgs.length === 0
      ? undefined
      : 'spec.extraArgs is refused: oMLX takes no arguments for a model. Take them out, or choose mlx-lm.',
  modelProblem: folderProblem,
  sizing: 'safetensors',
  isBehindGateway: true,
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
