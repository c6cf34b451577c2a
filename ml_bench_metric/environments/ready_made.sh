# Tells what an image has of upstream's layout: folders of repositories, and conda environments. Runs with bash as the
# user of whom it tells. Writes records; each is a list of fields that ends with an empty one, all NUL-terminated.
say() { printf '%s\0' "$@" ''; }

# Whether all folders of a repository can be read and written: programs write beside themselves.
usable() {
    [ -r "$1" ] && [ -x "$1" ] && [ -w "$1" ] || return
    command -v find > /dev/null || return 0
    [ -z "$(find "$1" -type d ! \( -readable -executable -writable \) -print -quit 2>&1)" ]
}

shopt -s nullglob
IFS=  # what a variable holds is not split, but still matched against file names
tops=()
for top in /*; do
    case $top in /proc | /sys | /dev) ;; *) tops+=("$top") ;; esac
done

say user "$(id -u):$(id -g)"
env -0 | { printf '%s\0' variables; cat; printf '\0'; }

roots=(/workspace /repos)
for depth in '' '/*' '/*/*'; do
    for top in "${tops[@]}"; do
        roots+=($top$depth/repos)
    done
done
for root in "${roots[@]}"; do
    for folder in "$root"/*/; do
        folder=${folder%/}
        if usable "$folder"; then answer=yes; else answer=no; fi
        say repository "$root" "${folder##*/}" "$answer"
    done
done

pythons=(/envs/*/bin/python)
for depth in '' '/*' '/.conda' '/*/*' '/*/.conda'; do
    for top in "${tops[@]}"; do
        pythons+=($top$depth/envs/*/bin/python)
    done
done
for python in "${pythons[@]}"; do
    # What `conda activate` does. In a shell of its own: a hook may do anything, even exit.
    (
        export CONDA_PREFIX=${python%/bin/python}
        export CONDA_DEFAULT_ENV=${CONDA_PREFIX##*/} PATH="$CONDA_PREFIX/bin:$PATH"
        unset IFS
        for hook in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
            . "$hook" > /dev/null 2>&1 < /dev/null
        done
        # Conda's Python finds its libraries by itself; one that was moved does not.
        if ! "$python" -c '' 2> /dev/null; then
            export LD_LIBRARY_PATH="$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
            "$python" -c '' 2> /dev/null || exit
        fi
        env -0 | { printf '%s\0' environment "$CONDA_DEFAULT_ENV"; cat; printf '\0'; }
    )
done
exit 0
