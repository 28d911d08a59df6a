import { createHash } from 'node:crypto'
import { parseShard } from '../models/selection.ts'
import { contextSizeOf, llamaServerRuntime } from './llama-server.ts'
import { inferenceServiceSpec, modelSpec, type InferenceServiceSpec } from '../kube/resources.ts'
import type { DaemonPlace, DaemonRuntime } from './runtime.ts'

/** What Ollama gives a model on a machine with little memory. Said for every model that is made here, so that its need is known. */
const defaultContextTokens = 4_096

const contextOf = (spec: InferenceServiceSpec): number => contextSizeOf(spec, defaultContextTokens)

/** As a person set it up, but for where it listens. It makes room for a model by dropping another, and here the agent decides what fits. */
const ollamaEnvironment = ({ host, port, env }: DaemonPlace): Record<string, string> => ({
  OLLAMA_MAX_LOADED_MODELS: '100',
  OLLAMA_NUM_PARALLEL: '1',
  ...Object.fromEntries(
    Object.entries(env).flatMap(([name, value = '']) => (name.startsWith('OLLAMA_') ? [[name, value]] : [])),
  ),
  OLLAMA_HOST: `${host}:${port}`,
})

/**
 * An Ollama that a person runs, or that this agent starts: its models are loaded and unloaded over its API, which would let any client pull and delete models too. So it is
 * reached through the gateway alone.
 */
export const ollamaRuntime: DaemonRuntime = {
  kind: 'daemon',
  name: 'ollama',
  aliases: [],
  formats: ['gguf'],
  product: 'Ollama',
  port: 'ollamaPort',
  portFlag: '--ollama-port',
  howToStart:
    'open the Ollama app, run "ollama serve", have the agent start it (--ollama-start), or give its port with --ollama-port; "brew install ollama" installs it',
  start: {
    setting: { name: 'ollamaStart', flag: '--ollama-start', program: 'ollamaBin' },
    program: {
      name: 'ollama',
      flag: '--ollama-bin',
      notInstalled: {
        darwin:
          'ollama is not installed here, so --ollama-start cannot start it: install it with "brew install ollama" or as https://ollama.com/download says, or give its path with --ollama-bin.',
        linux:
          'ollama is not on PATH, so --ollama-start cannot start it: install it as https://ollama.com/download says, or give its path with --ollama-bin.',
      },
    },
    command: (place) => ({ argv: ['serve'], environment: ollamaEnvironment(place) }),
  },
  flags: { table: new Map(), program: 'ollama', product: 'Ollama', isStrict: true },
  // Nothing else of spec and Model reaches it, and it answers one request at a time.
  argv: ({ spec, modelPath, mmproj, port }) =>
    llamaServerRuntime.argv({
      ...{ modelPath, mmproj, port, model: modelSpec.parse({}) },
      spec: inferenceServiceSpec.parse({ contextSize: contextOf(spec), parallelSlots: 1 }),
    }),
  content: ({ spec, modelPath, mmproj, revision, owner }) => {
    const contextTokens = contextOf(spec)
    const files = [modelPath, ...(mmproj === undefined ? [] : [mmproj])]
    const which = createHash('sha256')
      .update(JSON.stringify([revision, files, contextTokens]))
      .digest('hex')
    return { name: `metalbar-${owner}/${which.slice(0, 16)}`, files, isOurs: true, contextTokens }
  },
  settingsOfAll: [],
  fieldProblem: ({ extraArgs }) =>
    extraArgs.length === 0
      ? undefined
      : 'spec.extraArgs is refused: Ollama takes no arguments for a model. Remove them, or choose llama-server.',
  modelProblem: (path) =>
    Promise.resolve(
      parseShard(path) === undefined
        ? undefined
        : `${path} is the first of several parts, which Ollama does not accept: choose llama-server, or a model in one file.`,
    ),
  sizing: 'gguf',
  isBehindGateway: true,
}
