import type { DaemonStartSetting } from '../../contract/settings.ts'

const textsOf = (name: string) => ({
  program: {
    title: `Path of ${name}`,
    help: 'Serves MLX models. Left empty: it is looked for where llama-server is.',
  },
  stall: {
    title: `Longest wait for ${name} to load a model`,
    help: `A server of ${name} that makes no progress for this long while it loads its model is restarted.`,
  },
})

const mlxLm = textsOf('mlx-lm')
const mlxServer = textsOf('mlx-server')
const vllmSwift = textsOf('vllm-swift')
const tensorfold = textsOf('tensorfold')

/** What a person reads of the settings of runtimes beside llama-server. */
export const runtimeTexts = {
  mlxLm: mlxLm.program,
  mlxLmStartupStallMs: mlxLm.stall,
  mlxServer: mlxServer.program,
  mlxServerStartupStallMs: mlxServer.stall,
  vllmSwift: vllmSwift.program,
  vllmSwiftStartupStallMs: vllmSwift.stall,
  tensorfold: tensorfold.program,
  tensorfoldStartupStallMs: tensorfold.stall,
  ollamaBin: {
    title: 'Path of ollama',
    help: 'Started where the next setting says so. Left empty: it is looked for where llama-server is.',
  },
  ollamaStart: {
    title: 'Keep Ollama running',
    help: 'The agent starts Ollama and keeps it running, and ends it when the agent ends. An Ollama that runs already is used as it is and never ended. Turned off, an Ollama that was started here ends after its requests.',
  },
  omlxBin: {
    title: 'Path of omlx',
    help: 'Started where the next setting says so. Left empty: it is looked for where llama-server is.',
  },
  omlxStart: {
    title: 'Keep oMLX running',
    help: 'The agent starts an oMLX with settings of its own, gives it the models that services need, and ends it when the agent ends. An oMLX that runs already is used as it is and never ended.',
  },
  omlxStartupStallMs: {
    title: 'Longest wait for oMLX to answer',
    help: 'An oMLX that the agent starts is ended, and started again, when it makes no progress for this long before it answers.',
  },
}

/** On a button that switches the setting on. */
export const startDaemonWords = { ollamaStart: 'Start Ollama', omlxStart: 'Start oMLX' } satisfies Readonly<
  Record<DaemonStartSetting, string>
>

/** The same of the ports that count from the start. */
export const runtimePortTexts = {
  mlxServerPort: {
    title: 'First port of mlx-server',
    help: 'Where it is free the first mlx-server listens there; further ones get a free port, as all do with 0.',
  },
  ollamaPort: {
    title: 'Port of Ollama',
    help: 'Where an Ollama listens on this machine. Its own models stay as they are. 0 = there is none.',
  },
  omlxPort: {
    title: 'Port of oMLX',
    help: 'Where an oMLX listens on this machine. 0 = there is none.',
  },
}
