import type { ReactNode } from 'react'
import { SwitchButton, SwitchField } from 'react-aria-components/Switch'
import { Text } from 'react-aria-components/Text'
import { spellingOf } from '../../contract/setting-text.ts'
import { editableRow, type SettingView } from '../../contract/settings.ts'
import { Button } from '../components/button.tsx'
import { classNames } from '../components/class-names.ts'
import { Command } from '../components/command.tsx'
import { TextInput } from '../components/text-input.tsx'
import { isConflict, textOf, type Written } from '../settings-draft.ts'
import { useTrust } from '../store.ts'
import { settingTitles } from '../words/setting-titles.ts'
import { settingWords } from '../words/views.ts'
import styles from './setting-field.module.css'

interface SettingFieldProps {
  readonly view: SettingView
  readonly written: Written | undefined
  readonly problem: string | undefined
  /** What was written is on its way to the agent. */
  readonly isPending: boolean
  /** Drawn above the field, for a value that is seen better than written. */
  readonly scale?: (text: string, onChange: (text: string) => void) => ReactNode
  /** Drawn below the field: what the change would do. */
  readonly preview?: ReactNode
  /** Undefined = nothing is written over it any more. */
  readonly onChange: (text: string | null | undefined) => void
}

export function SettingField({ view, written, problem, isPending, scale, preview, onChange }: SettingFieldProps) {
  const trust = useTrust()
  const { trust: needed } = editableRow(view.name)
  const spelled = spellingOf(view.name)
  if (view.from === 'flag') return <Fixed view={view} why={settingWords.byFlag} />
  if (needed === 'shell' && trust === 'page') {
    return (
      <Fixed view={view} why={settingWords.needsShell}>
        <Command text={settingWords.command(spelled)} copyLabel={settingWords.copyCommand(spelled)} />
      </Fixed>
    )
  }
  return (
    <div className={styles['field']} data-changed={written !== undefined}>
      {scale?.(written === undefined ? textOf(view) : (written.text ?? ''), onChange)}
      {scale !== undefined && preview}
      <Value view={view} written={written} problem={problem} onChange={onChange} />
      {scale === undefined && preview}
      {written !== undefined && !isPending && isConflict(written, view) && (
        <Conflict view={view} onTake={() => onChange(undefined)} />
      )}
      {view.from === 'person' && written?.text !== null && (
        <div>
          <Button look="plain" label={settingWords.defaultOf(settingTitles[view.name])} onPress={() => onChange(null)}>
            {settingWords.useDefault}
          </Button>
        </div>
      )}
      {written?.text === null && <p className={styles['note']}>{settingWords.willBeDefault}</p>}
    </div>
  )
}

interface ConflictProps {
  readonly view: SettingView
  readonly onTake: () => void
}

/** Somebody else set it while a person wrote here. */
function Conflict({ view, onTake }: ConflictProps) {
  return (
    <div className={styles['conflict']} role="status">
      <p>{settingWords.conflict(view)}</p>
      <Button look="plain" label={settingWords.takeOf(settingTitles[view.name])} onPress={onTake}>
        {settingWords.take}
      </Button>
    </div>
  )
}

function Value({ view, written, problem, onChange }: Omit<SettingFieldProps, 'isPending'>) {
  const { name } = view
  const help = settingWords.help(name)
  const text = written?.text ?? (written === undefined ? textOf(view) : '')
  const title = settingTitles[name]
  if (editableRow(name).kind === 'switch') {
    return (
      <SwitchField isSelected={text === 'on'} onChange={(on) => onChange(on ? 'on' : 'off')}>
        <SwitchButton className={classNames(styles['switch'])}>
          <span className={styles['track']} aria-hidden="true" />
          {title}
        </SwitchButton>
        <Text slot="description" className={classNames(styles['note'])}>
          {help}
        </Text>
      </SwitchField>
    )
  }
  return (
    <TextInput
      label={title}
      value={text}
      onChange={onChange}
      help={help}
      problem={problem}
      placeholder={settingWords.placeholder}
    />
  )
}

interface FixedProps {
  readonly view: SettingView
  readonly why: string
  readonly children?: ReactNode
}

/** A setting that cannot be set here, and why. */
function Fixed({ view, why, children }: FixedProps) {
  const text = textOf(view)
  return (
    <div className={styles['field']}>
      <p>
        <strong className={styles['label']}>{settingTitles[view.name]}</strong>{' '}
        {text === '' ? settingWords.notSet : text}
      </p>
      <p className={styles['note']}>{settingWords.help(view.name)}</p>
      <p className={styles['note']}>{why}</p>
      {children}
    </div>
  )
}
