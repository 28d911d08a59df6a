/** What may follow a flag, where a spec may use it at all. */
export type ValueKind =
  | 'none'
  | 'number'
  | 'twoNumbers'
  /** Read as text by llama-server, never as the name of a file or as a program. */
  | 'text'
  /** One or more, separated by commas. */
  | 'paths'
  /** As `paths`, each followed by a colon and a number. */
  | 'scaledPaths'

type FlagJudgement =
  | { readonly verdict: 'allowed'; readonly takes: ValueKind }
  /** The agent alone sets it, or decides that it is not set. */
  | { readonly verdict: 'ours'; readonly why: string }
  | {
      readonly verdict: 'refused'
      readonly why: string
      /** Lets a spec or a client of the server run programs: a server that was started with it by an earlier version is stopped. */
      readonly loadsCode: boolean
    }

export type FlagTable = ReadonlyMap<string, FlagJudgement>

export const allowed = (takes: ValueKind, names: string) => named(names, { verdict: 'allowed', takes })
export const ours = (why: string, names: string) => named(names, { verdict: 'ours', why })
export const refused = (why: string, names: string) => named(names, { verdict: 'refused', why, loadsCode: false })
export const code = (why: string, names: string) => named(names, { verdict: 'refused', why, loadsCode: true })

const named = (names: string, judgement: FlagJudgement): [string, FlagJudgement][] =>
  names
    .trim()
    .split(/\s+/)
    .map((name) => [name, judgement])

/**
 * Every flag of llama-server 11434, and those of earlier builds that people use, with a judgement each. A flag that is not listed is
 * refused: a flag of a newer build is judged before it may be used.
 */
export const llamaServerFlags: FlagTable = new Map([
  ...allowed(
    'none',
    `--swa-full --perf --no-perf -e --escape --no-escape -kvo --kv-offload -nkvo --no-kv-offload --repack -nr --no-repack
    --no-host -cmoe --cpu-moe --check-tensors --op-offload --no-op-offload --log-disable --log-jsonl --no-log-jsonl -v --verbose
    --log-verbose --offline --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --ignore-eos -bs --backend-sampling
    --spec-draft-cpu-moe -cmoed --cpu-moe-draft --spec-draft-backend-sampling --no-spec-draft-backend-sampling -kvu --kv-unified
    -no-kvu --no-kv-unified --cache-idle-slots --no-cache-idle-slots --context-shift --no-context-shift -sp --special --warmup
    --no-warmup --spm-infill -cb --cont-batching -nocb --no-cont-batching --mmproj-auto --no-mmproj --no-mmproj-auto
    --mmproj-offload --no-mmproj-offload --ui --webui --no-ui --no-webui --embedding --embeddings --rerank --reranking
    --cache-prompt --no-cache-prompt --metrics --props --no-slots --no-models-autoload --jinja --no-jinja --reasoning-preserve
    --no-reasoning-preserve --skip-chat-parsing --no-skip-chat-parsing --prefill-assistant --no-prefill-assistant
    --lora-init-without-apply --no-agent -no-ag --no-ui-mcp-proxy --no-webui-mcp-proxy --no-cors-credentials
    --mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io`,
  ),
  ...allowed(
    'number',
    `-t --threads -tb --threads-batch --cpu-strict --poll --cpu-strict-batch --poll-batch -c --ctx-size -n --predict --n-predict
    -b --batch-size -ub --ubatch-size --keep --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor
    --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast -dt --defrag-thold -ncmoe --n-cpu-moe -ncffn --n-cpu-ffn -mg --main-gpu
    -fitc --fit-ctx -s --seed --temp --temperature --top-k --top-p --min-p --top-nsigma --top-n-sigma --xtc-probability
    --xtc-threshold --typical --typical-p --repeat-last-n --repeat-penalty --presence-penalty --frequency-penalty
    --dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n --adaptive-target --adaptive-decay --dynatemp-range
    --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent --spec-draft-threads -td --threads-draft --spec-draft-threads-batch
    -tbd --threads-batch-draft --spec-draft-cpu-strict --cpu-strict-draft --spec-draft-poll --poll-draft
    --spec-draft-cpu-strict-batch --cpu-strict-batch-draft --spec-draft-poll-batch --poll-batch-draft --spec-draft-n-cpu-moe
    --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft --spec-draft-n-max --spec-draft-n-min --spec-synth-len --spec-draft-p-split
    --draft-p-split --spec-draft-p-min --draft-p-min --spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match
    --spec-ngram-simple-size-n --spec-ngram-simple-size-m --spec-ngram-simple-min-hits --spec-ngram-map-k-size-n
    --spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m
    --spec-ngram-map-k4v-min-hits --draft --draft-n --draft-max --draft-min --draft-n-min --spec-ngram-size-n
    --spec-ngram-size-m --spec-ngram-min-hits --kv-unified-per-slot -ctxcp --ctx-checkpoints --swa-checkpoints -cms
    --checkpoint-min-step -cram --cache-ram -np --parallel --image-min-tokens --image-max-tokens --mtmd-batch-max-tokens
    --video-fps --video-timestamp-interval --embd-normalize -to --timeout --sse-ping-interval --threads-http --cache-reuse
    --reasoning-budget -sps --slot-prompt-similarity --sleep-idle-seconds -lv --verbosity --log-verbosity -gan --grp-attn-n
    -gaw --grp-attn-w`,
  ),
  ...allowed('twoNumbers', '--control-vector-layer-range'),
  ...allowed(
    'text',
    `-C --cpu-mask -Cr --cpu-range -Cb --cpu-mask-batch -Crb --cpu-range-batch -fa --flash-attn --rope-scaling -ctk --cache-type-k
    -ctv --cache-type-v -lm --load-mode -lzm --lazy-mode --numa -dev --device -ot --override-tensor -ngl --gpu-layers
    --n-gpu-layers -sm --split-mode -ts --tensor-split -fit --fit -fitt --fit-target --override-kv --log-colors
    --spec-draft-type-k -ctkd --cache-type-k-draft --spec-draft-type-v -ctvd --cache-type-v-draft --samplers --sampler-seq
    --sampling-seq --dry-sequence-breaker -l --logit-bias --grammar -j --json-schema --spec-draft-cpu-mask -Cd --cpu-mask-draft
    --spec-draft-cpu-range -Crd --cpu-range-draft --spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft
    --spec-draft-override-tensor -otd --override-tensor-draft --spec-synth-rates --spec-draft-sampling --spec-draft-device -devd
    --device-draft --spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft --spec-type -r --reverse-prompt --pooling
    -mmdev --mmproj-device --tags --ui-config --webui-config --chat-template-kwargs --reasoning-format -rea --reasoning
    --reasoning-effort --reasoning-budget-message --chat-template`,
  ),
  ...allowed('paths', '-mm --mmproj --spec-draft-model -md --model-draft --lora --control-vector'),
  ...allowed('scaledPaths', '--lora-scaled --control-vector-scaled'),

  ...ours('the agent decides where the server listens', '--host --port --reuse-port'),
  ...ours('the agent gives the server the file of the Model', '-m --model'),

  ...code(
    'it lets anyone who reaches the server run commands on this machine',
    '--tools --tools-runtime -ag --agent --mcp-servers-config --mcp-servers-json',
  ),
  ...code('it makes the server use the memory of programs elsewhere and trust their answers', '--rpc'),
  ...code('it makes the server run programs from a folder', '--video-ffmpeg-dir'),

  ...refused('the names of the model are what the Service and its clients expect', '-a --alias'),
  ...refused('it lets any client reach other servers through this one', '--ui-mcp-proxy --webui-mcp-proxy'),
  ...refused(
    'it lets the server hand out, read or write files of this machine',
    `--path --media-path --log-file --log-prompts-dir --slot-save-path --models-dir --models-preset --api-key-file --ssl-key-file
    --ssl-cert-file -lcd --lookup-cache-dynamic`,
  ),
  ...refused(
    'every client of the server could read its file; give the text itself, with the flag without -file',
    '--chat-template-file --grammar-file -jf --json-schema-file --ui-config-file --webui-config-file',
  ),
  ...refused('its file is not a model, and could be any file', '-lcs --lookup-cache-static'),
  ...refused('the server would serve other models than the one of its Model', '--models-max --models-autoload'),
  ...refused(
    'models are fetched by the agent, which checks where they come from and what they are',
    `-mu --model-url -dr --docker-repo -hf -hfr --hf-repo -hff --hf-file -hft --hf-token --spec-draft-hf -hfd -hfrd
    --hf-repo-draft -hfv -hfrv --hf-repo-v -hffv --hf-file-v -mmu --mmproj-url --embd-gemma-default --fim-qwen-1.5b-default
    --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default
    --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default --spec-default`,
  ),
  ...refused('clients inside the cluster do not know the key', '--api-key'),
  ...refused('requests reach the server at the paths that clients expect', '--api-prefix'),
  ...refused(
    'pages in a browser are kept away from the server',
    '--cors-origins --cors-methods --cors-headers --cors-credentials',
  ),
  ...refused('it shows the prompts of all clients to each of them', '--slots'),
  ...refused(
    'a server that runs ahead of everything else can make this machine unusable',
    '--prio --prio-batch --spec-draft-prio --prio-draft --spec-draft-prio-batch --prio-batch-draft',
  ),
  ...refused(
    'the server would only print something and exit',
    '-h --help --usage --version -cl --cache-list --completion-bash --list-devices',
  ),
])

/** llama-server takes underscores for dashes in long flags; no flag of another runtime has one. */
export const flagName = (argument: string): string =>
  argument.startsWith('--') ? argument.replaceAll('_', '-') : argument

/** Every flag that a `--help` names. */
export const flagsIn = (help: string): ReadonlySet<string> =>
  new Set(
    [...help.matchAll(/(?<![\w\-/.*'"])--?[a-zA-Z][\w.-]*(?![\w.*-])/g)].map(([flag]) =>
      flagName(flag.replace(/(?<![.-])[.-]+$/, '')),
    ),
  )
