/** Switches of llama.cpp 11434 that change how it computes, and nothing else. */
const harmless: ReadonlySet<string> = new Set([
  'GGML_METAL_BF16_DISABLE',
  'GGML_METAL_CONCURRENCY_DISABLE',
  'GGML_METAL_FUSION_DISABLE',
  'GGML_METAL_GRAPH_OPTIMIZE_DISABLE',
  'GGML_METAL_NO_RESIDENCY',
  'OMP_NUM_THREADS',
])

/** What makes a server, or a program that it starts, run code from elsewhere, as loaders, shells and languages of 2026-11 document it. */
const codePatterns: readonly RegExp[] = [
  /^(LD|DYLD|VK|OCL_ICD)_/,
  /^GGML_.*(BACKEND|PATH)/,
  /^LLAMA_ARG_(MCP|TOOLS|AGENT|RPC|UI_MCP)/,
  /^VLLM_(PLUGINS|SERVER_DEV_MODE|ALLOW_(INSECURE_SERIALIZATION|RUNTIME_LORA_UPDATING))$/,
  /^(PATH|IFS|ENV|BASH_ENV|ZDOTDIR|PROMPT_COMMAND|PS4|OPENSSL_CONF|GCONV_PATH|LOCPATH)$/,
  /^BASH_FUNC_/,
  /^(PYTHON(STARTUP|PATH|HOME|INSPECT|USERBASE)|NODE_(OPTIONS|PATH)|PERL5?(OPT|LIB)|PERL5DB|RUBY(OPT|LIB))$/,
  /^(JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|LUA_INIT.*|LUA_C?PATH.*)$/,
]

/** What decides where files lie, or stands for an argument and would pass by the rules of arguments. */
const placePatterns: readonly RegExp[] = [
  /^METALBAR_/,
  /^LLAMA_(ARG_|API_KEY|CACHE)/,
  /^(HOME|SHELL|TMPDIR|SSLKEYLOGFILE)$/,
]

/** Whether a server gets a variable of its spec; `never` whatever a person allowed. */
type VariableVerdict = 'passed' | 'leftOut' | 'never'

/** `allowed`: `--allowed-env`. */
export function judgeVariable(name: string, allowed: readonly string[]): VariableVerdict {
  if (loadsCode(name) || placePatterns.some((pattern) => pattern.test(name))) return 'never'
  return harmless.has(name) || allowed.includes(name) ? 'passed' : 'leftOut'
}

/** Whether a variable makes a server, or a program that the server starts, run what it names. */
export const loadsCode = (name: string): boolean => codePatterns.some((pattern) => pattern.test(name))
