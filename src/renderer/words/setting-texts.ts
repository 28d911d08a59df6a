import type { SettingName } from '../../contract/settings.ts'
import type { Words } from '../../contract/words.ts'

interface SettingText {
  readonly title: string
  /** What it does: one short sentence. */
  readonly help: string
  /** What few need to know of it, such as what no value means. */
  readonly more?: string
  /** Completes "It must be …" where the kind of the value and its bounds do not say it all. */
  readonly wants?: string
  /** Labels of a setting that is one of a few values. */
  readonly choices?: Readonly<Record<string, string>>
}

const mlxRuntime = (name: string) => ({
  title: `Path of ${name}`,
  help: 'Serves MLX models.',
  more: 'Left empty: searched for where llama-server is.',
})

/** What a person reads of each setting that may be changed while the agent runs. The command line has help of its own in the table of settings. */
export const settingTexts: Readonly<Record<SettingName, SettingText>> = {
  kubeconfig: {
    title: 'Kubeconfig',
    help: 'The file that says how to reach clusters.',
    more: 'Left empty: $KUBECONFIG, then the service account in a Pod, then ~/.kube/config.',
  },
  namespace: {
    title: 'Namespace',
    help: 'Serves only this namespace. Left empty: all namespaces.',
    wants: 'the name of a namespace, of at most 63 characters',
  },
  llamaServer: {
    title: 'Path of llama-server',
    help: 'Serves GGUF models.',
    more: 'Left empty: searched for in /opt/homebrew/bin, /usr/local/bin, ~/.local/bin, and on Linux in PATH and Homebrew’s folder.',
  },
  mlxLm: mlxRuntime('mlx-lm'),
  mlxServer: mlxRuntime('mlx-server'),
  vllmSwift: mlxRuntime('vllm-swift'),
  tensorfold: mlxRuntime('tensorfold'),
  ollamaBin: {
    title: 'Path of ollama',
    help: 'Started when the agent keeps Ollama running.',
    more: 'Left empty: searched for where llama-server is.',
  },
  ollamaStart: {
    title: 'Keep Ollama running',
    help: 'The agent starts Ollama, and stops it when the agent ends.',
    more: 'An Ollama that runs already is used as it is and never stopped. Turned off, an Ollama that was started here finishes its requests and stops.',
  },
  omlxBin: {
    title: 'Path of omlx',
    help: 'Started when the agent keeps oMLX running.',
    more: 'Left empty: searched for where llama-server is.',
  },
  omlxStart: {
    title: 'Keep oMLX running',
    help: 'The agent starts oMLX, and stops it when the agent ends.',
    more: 'The agent gives it settings of its own and the models that services need. An oMLX that runs already is used as it is and never stopped.',
  },
  drainLimitMs: {
    title: 'Time for requests to finish',
    help: 'A server that stops cuts off requests after this time. 0s = at once.',
  },
  startupStallMs: {
    title: 'Load timeout',
    help: 'A server that loads without progress for this long is restarted.',
    more: 'Left empty: 2 minutes; 5 for mlx-lm, 10 for tensorfold.',
  },
  downloadBytesPerSecond: {
    title: 'Download limit per second',
    help: 'For all downloads together. 0 = no limit.',
  },
  hubEndpoint: {
    title: 'Hugging Face address',
    help: 'The Hugging Face Hub or a mirror. The token is sent there.',
    more: 'Left empty: $HF_ENDPOINT, then https://huggingface.co.',
    wants: 'an http:// or https:// address of at most 1000 characters',
  },
  hubTokenFile: {
    title: 'Hugging Face token file',
    help: 'A file that contains only the token.',
    more: 'Left empty: the token that the app keeps, then $HF_TOKEN, then the file that hf auth login writes.',
  },
  caFile: {
    title: 'Certificate authorities',
    help: 'A PEM file of authorities that downloads trust too.',
    more: 'Left empty: only the usual authorities.',
  },
  memoryFraction: {
    title: 'Fraction of memory for models',
    help: 'What all models may use together: 0.5 is half, 0 = automatic.',
    more: 'Automatic is 0.67, above 38.7 GB (36 GiB) of memory 0.75, from 137 GB (128 GiB) 0.9.',
  },
  memoryBudgetBytes: {
    title: 'Fixed amount of memory for models',
    help: 'Replaces the fraction. Left empty: the fraction counts.',
  },
  memoryCheckMode: {
    title: 'Model with unknown memory need',
    help: 'What happens to a model whose memory need cannot be estimated.',
    choices: { enforce: 'Refuse it', warn: 'Let it start' },
  },
  evictionEnabled: {
    title: 'Evict models when memory runs out',
    help: 'The least important model goes first, and comes back later.',
  },
  listen: {
    title: 'Where models listen',
    help: 'Requests are checked only behind the gateway.',
    more: 'At all addresses, a model is open to every network of this machine, without a password. At the published address, it is open to everyone who can reach that address. Behind the gateway, models listen only on this machine; the gateway listens at the published address, checks each request, and asks for an API key if the service names one.',
    choices: { all: 'At all addresses', published: 'At the published address', gateway: 'Behind the gateway' },
  },
  publish: {
    title: 'How pods reach a model',
    help: 'At the address of this machine, or through a relay of LLMKube.',
    more: 'LLMKube 0.10 has the relay. It asks this machine over TLS, and models listen only on this machine. Automatic uses the relay if the cluster has one.',
    choices: { auto: 'Automatic', relay: "By LLMKube's relay", direct: 'Directly' },
  },
  sleepPolicy: {
    title: 'Keep this machine awake',
    help: 'On mains. The display may sleep.',
    choices: {
      never: 'Never',
      'while-serving': 'While a model loads or answers',
      'while-loaded': 'While a model is in memory',
    },
  },
  awakeOnBattery: { title: 'Keep it awake on battery too', help: 'As set above. A request may use up the battery.' },
  applePowerEnabled: {
    title: 'Measure power',
    help: 'With powermetrics it needs a sudo rule.',
  },
  powerSource: {
    title: 'Measure power with',
    help: 'The powermetrics of macOS needs root, macmon does not.',
    more: 'To install macmon: brew install macmon.',
    choices: { powermetrics: 'powermetrics', macmon: 'macmon' },
  },
  macmonBin: {
    title: 'Path of macmon',
    help: 'Measures power without root.',
    more: 'Left empty: searched for where llama-server is.',
  },
  logLevel: {
    title: "Detail of the agent's log",
    help: 'How much the agent writes to its own log.',
    choices: { debug: 'Everything', info: 'Usual', warn: 'Warnings', error: 'Errors' },
  },
} as const satisfies Words
